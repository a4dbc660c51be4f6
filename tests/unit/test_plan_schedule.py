"""The sealed schedule: written, read, striped, and refused when touched."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tracemalloc
from array import array
from collections.abc import Iterator
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadgen.errors import UsageError
from loadgen.plan.arrivals import offsets
from loadgen.plan.prompts import Prompt
from loadgen.plan.schedule import (
    Asked,
    Entry,
    Header,
    Realised,
    Schedule,
    bind,
    load,
    seal,
)
from loadgen.plan.workload import builtin_text, parse_workload
from loadgen.units import NS_PER_S


def header(groups: tuple[str, ...] = ("short", "long"), **arrivals: object) -> Header:
    return Header(
        api="openai-chat",
        path="/v1/chat/completions",
        model="m",
        stream=True,
        workload="w",
        seed=7,
        arrivals={"process": "constant", "duration_ns": 2 * NS_PER_S} | arrivals,
        asked=Asked(rate_rps=2.0, duration_s=2.0),
        groups=list(groups),
        created_by="loadgen",
    )


def encode(prompt: Prompt) -> bytes:
    return msgspec.json.encode({"prompt": prompt.text, "max_tokens": prompt.max_tokens})


PROMPTS = [
    Prompt("short", None, "one\nline", 5, 2),
    Prompt("long", "team", '«two», and "more": \',"body":\'', None, 9),
    Prompt("short", None, "three", 1, 1),
    Prompt("long", None, "four", 2, 1),
]
DUE = array("q", [0, 5, 5, 2 * NS_PER_S - 1])


def sealed_bytes() -> bytes:
    out = io.BytesIO()
    head = header()
    seal(head, bind(head, DUE, PROMPTS, encode), out)
    return out.getvalue()


def resealed(lines: list[bytes]) -> bytes:
    """Lines of our own making under a seal that is right."""
    data = b"".join(lines)
    digest = hashlib.sha256(data).hexdigest()
    return data + (
        b'{"seal":"sha256:%s","requests":%d,"duration_ns":%d}\n'
        % (digest.encode(), len(lines) - 1, 2 * NS_PER_S)
    )


def refusal(data: bytes) -> str:
    with pytest.raises(UsageError) as caught:
        load(data)
    return caught.value.what


def test_what_is_sealed_is_what_is_loaded() -> None:
    schedule = load(sealed_bytes())
    assert len(schedule) == schedule.requests == 4
    assert schedule.at_ns == DUE
    assert schedule.header == header()
    assert [schedule.body(i) for i in range(4)] == [encode(p) for p in PROMPTS]
    entry = schedule.entry(1)
    assert (entry.group, entry.tenant, entry.max_tokens, entry.prompt_tokens) == (
        "long",
        "team",
        None,
        9,
    )
    assert bytes(entry.body) == schedule.body(1)
    assert schedule.realised() == Realised(
        requests=4, rate_rps=2.0, duration_s=2.0, groups={"short": 2, "long": 2}
    )


def test_coreutils_can_check_the_seal() -> None:
    data = sealed_bytes()
    body, last = data[: data.rindex(b"\n", 0, -1) + 1], data.splitlines()[-1]
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert msgspec.json.decode(last)["seal"] == digest == load(data).digest


def test_golden_schedule() -> None:
    """The main job's schedule: this seed is these bytes, everywhere."""
    burst = parse_workload(builtin_text("agent-burst"), "agent-burst")
    spec = burst.timing.arrivals()
    due = offsets(spec, 7)
    head = header(tuple(burst.group_names), **spec.describe())
    entries = bind(head, due, burst.prompts(len(due), 7), encode)
    out = io.BytesIO()
    digest = seal(head, entries, out).seal
    assert load(out.getvalue()).realised().requests == 40
    assert digest == GOLDEN


def test_planning_is_streamed() -> None:
    """What a request costs in memory is its due time; its text is written and gone."""
    chat = parse_workload(builtin_text("short-questions"), "short-questions")
    spec = chat.timing.override(rate="10000/s", duration="2s").arrivals()
    due = offsets(spec, 7)
    head = header(tuple(chat.group_names), **spec.describe())
    with Path(os.devnull).open("wb") as out:
        tracemalloc.start()
        seal(head, bind(head, due, chat.prompts(len(due), 7), encode), out)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert len(due) > 19_000
    assert peak < 200 * len(due)


def test_stripes_are_the_whole_without_overlap() -> None:
    data = sealed_bytes()
    whole = load(data)
    stripes = [load(data, stripe=(k, 3), verify=False) for k in range(3)]
    assert [len(stripe) for stripe in stripes] == [2, 1, 1]
    seen = {
        stripe.seq(i): (stripe.at_ns[i], stripe.body(i))
        for stripe in stripes
        for i in range(len(stripe))
    }
    assert seen == {i: (whole.at_ns[i], whole.body(i)) for i in range(4)}
    assert {stripe.digest for stripe in stripes} == {whole.digest}


def test_a_mapped_file_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "schedule.jsonl"
    path.write_bytes(sealed_bytes())
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
        schedule: Schedule | None = load(mapped)
        assert schedule is not None
        assert schedule.body(2) == encode(PROMPTS[2])
        schedule = None


def test_lines_longer_than_a_block_are_whole() -> None:
    head = header()
    long = [Prompt("long", None, "word " * 600_000, 1, 600_000) for _ in range(4)]
    out = io.BytesIO()
    seal(head, bind(head, DUE, long, encode), out)
    assert load(out.getvalue()).body(3) == encode(long[3])


def test_loading_imports_no_numpy() -> None:
    check = "import sys, loadgen.plan.schedule; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_what_seal_refuses() -> None:
    head = header()

    def entry(at_ns: int, body: bytes = b"{}") -> Entry:
        return Entry(at_ns, "short", None, 1, 1, msgspec.Raw(body))

    def refused(*entries: Entry) -> str:
        with pytest.raises(UsageError) as caught:
            seal(head, entries, io.BytesIO())
        return caught.value.what

    assert "no request" in refused()
    assert "go back" in refused(entry(5), entry(4))
    assert "line break" in refused(entry(0, b'{"a":\n1}'))
    assert "after the schedule's end" in refused(entry(2 * NS_PER_S))
    with pytest.raises(ValueError, match="no group 'other'"):
        list(bind(head, DUE, [PROMPTS[0]._replace(group="other")] * 4, encode))
    with pytest.raises(ValueError, match="shorter"):
        list(bind(head, DUE, PROMPTS[:3], encode))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "line 1: the schedule is empty"),
        (b"\n", "line 1: not a loadgen schedule"),
        (b"\x00\xff\xfe\x80" * 200, "line 1: not a loadgen schedule"),
        (b"{}\n{}\n", "line 1: not a loadgen schedule"),
        (b'{"schema":7}\n', "line 1: not a loadgen schedule"),
        (b'{"schema":"loadgen.schedule/2"}\n', "another version (loadgen.schedule/2)"),
        (b'{"schema":"loadgen.schedule/1"}\n', "line 1: the header cannot be read"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 52\n",
            "line 1: a git-lfs pointer, not the data (52 bytes expected)",
        ),
    ],
)
def test_files_that_are_no_schedule(data: bytes, says: str) -> None:
    assert says in refusal(data)


def test_lines_lost_doubled_or_swapped() -> None:
    lines = sealed_bytes().splitlines(keepends=True)
    assert "holds 3 requests, not 4" in refusal(b"".join(lines[:2] + lines[3:]))
    assert "holds 5 requests, not 4" in refusal(b"".join(lines[:2] + lines[1:]))
    swapped = [lines[0], lines[1], lines[4], lines[2], lines[3], lines[5]]
    assert "line 4: time goes back" in refusal(b"".join(swapped))
    assert "changed after it was sealed" in refusal(
        b"".join([lines[0], lines[1], lines[3], lines[2], *lines[4:]])
    )
    assert "the last line is no seal" in refusal(b"".join(lines[:-1]))
    assert "the last line is no seal" in refusal(b"".join(lines) + b"\n")
    assert "not a loadgen schedule" in refusal(b"".join(lines[1:]))


def test_a_right_seal_saves_no_wrong_line() -> None:
    lines = sealed_bytes().splitlines(keepends=True)[:-1]
    load(resealed(lines))
    assert "line 3: time goes back" in refusal(resealed([lines[0], lines[3], lines[1]]))
    group = lines[1].replace(b'"short"', b'"other"')
    assert "line 2: no group 'other'" in refusal(resealed([lines[0], group]))
    late = lines[1].replace(b'"at_ns":0', b'"at_ns":2000000000')
    assert "line 2: due after the schedule's end" in refusal(resealed([lines[0], late]))
    spaced = lines[1].replace(b"}\n", b"} \n")
    assert "line 2: the body is not the end" in refusal(resealed([lines[0], spaced]))
    torn = lines[1][:60] + b"\n"
    assert "line 2: " in refusal(resealed([lines[0], torn]))
    endless = lines[0].replace(b"2000000000", b"0")
    assert "duration_ns above zero" in refusal(resealed([endless, lines[1]]))


def test_the_seal_itself_is_part_of_what_is_checked() -> None:
    data = sealed_bytes()
    for old, new in (
        (b'"requests":4', b'"requests":5'),
        (b'"requests":4', b'"requests": 4'),
        (b'"duration_ns":2000000000}\n', b'"duration_ns":2000000001}\n'),
    ):
        at = data.rindex(old)
        assert refusal(data[:at] + new + data[at + len(old) :])


GOLDEN = "sha256:c078833f04df47b32875679e5a8cae90857a733fe243e0d638c3d35ea24fb31e"


def test_large_bodies_are_written_one_after_another() -> None:
    class Nowhere(io.BytesIO):
        def write(self, data: Any) -> int:
            return len(data)

    def entries() -> Iterator[Entry]:
        for at_ns in range(64):
            yield Entry(at_ns, "short", None, 1, 1, msgspec.Raw(b"1" * (1 << 20)))

    tracemalloc.start()
    sealed = seal(header(), entries(), Nowhere())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sealed.requests == 64
    assert peak < 16 << 20
