"""Laws of the sealed schedule: round trip, and no byte can change unseen."""

from __future__ import annotations

import io

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import UsageError
from loadgen.plan.schedule import Asked, Entry, Header, load, seal

DURATION_NS = 1000

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
ENTRIES = st.lists(
    st.builds(
        Entry,
        at_ns=st.integers(0, DURATION_NS - 1),
        group=st.sampled_from(["a", "b"]),
        tenant=st.none() | st.text(),
        max_tokens=st.none() | st.integers(1, 10**6),
        prompt_tokens=st.integers(0, 10**6),
        body=st.dictionaries(st.text(), JSON).map(
            lambda value: msgspec.Raw(msgspec.json.encode(value))
        ),
    ),
    min_size=1,
    max_size=8,
).map(lambda entries: sorted(entries, key=lambda entry: entry.at_ns))


def sealed(entries: list[Entry]) -> bytes:
    header = Header(
        api="openai-chat",
        path="/v1/chat/completions",
        model="m",
        stream=True,
        workload="w",
        seed=7,
        arrivals={"process": "trace", "duration_ns": DURATION_NS},
        asked=Asked(rate_rps=1.0, duration_s=1e-6),
        groups=["a", "b"],
        created_by="loadgen",
    )
    out = io.BytesIO()
    seal(header, entries, out)
    return out.getvalue()


def facts(entry: Entry) -> tuple[object, ...]:
    return (*msgspec.structs.astuple(entry)[:-1], bytes(entry.body))


@given(ENTRIES)
@settings(deadline=None)
def test_round_trip(entries: list[Entry]) -> None:
    schedule = load(sealed(entries))
    read = [schedule.entry(index) for index in range(len(schedule))]
    assert list(map(facts, read)) == list(map(facts, entries))
    assert [schedule.body(i) for i in range(len(entries))] == [
        bytes(entry.body) for entry in entries
    ]
    assert sealed(read) == sealed(entries)


SMALL = sealed(
    [Entry(at, "a", None, 1, 1, msgspec.Raw(b'{"p":"x"}')) for at in range(3)]
)


def test_no_single_byte_can_change() -> None:
    """Every place, every bit, and what an editor or a transfer would do."""
    for at in range(len(SMALL)):
        for byte in {SMALL[at] ^ 1 << bit for bit in range(8)} | set(b" \n\r0}"):
            if byte == SMALL[at]:
                continue
            with pytest.raises(UsageError):
                load(SMALL[:at] + bytes([byte]) + SMALL[at + 1 :])


def test_no_byte_can_be_lost_added_or_cut_off() -> None:
    for at in range(len(SMALL)):
        for edited in (
            SMALL[:at],
            SMALL[:at] + SMALL[at + 1 :],
            SMALL[:at] + b" " + SMALL[at:],
            SMALL[:at] + b"\n" + SMALL[at:],
        ):
            with pytest.raises(UsageError):
                load(edited)


@given(st.binary(max_size=300))
def test_junk_is_refused_with_a_line(junk: bytes) -> None:
    with pytest.raises(UsageError):
        load(junk)
    with pytest.raises(UsageError):
        load(SMALL + junk + b"\n")


@given(ENTRIES, st.integers(1, 5))
@settings(deadline=None, max_examples=50)
def test_stripes_part_the_schedule(entries: list[Entry], stripes: int) -> None:
    data = sealed(entries)
    parts = [load(data, stripe=(k, stripes)) for k in range(stripes)]
    seen = sorted(part.seq(i) for part in parts for i in range(len(part)))
    assert seen == list(range(len(entries)))
