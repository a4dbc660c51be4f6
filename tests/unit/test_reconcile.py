"""The client's account against the engine's: the identity and its remainder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from loadgen.analysis.attribution import Attributor
from loadgen.analysis.counters import ENGINE_COUNTERS, names_of
from loadgen.analysis.reconcile import (
    ClientCounts,
    EngineDeltas,
    add_deltas,
    reconcile,
)
from loadgen.analysis.signatures import load_signatures
from loadgen.model import Layer
from tests.signature_rows import answer, replayed


def client(
    sent: int, ok: int, admission: int = 0, aborted: int = 0, **layers: int
) -> ClientCounts:
    by_layer = {Layer(layer): count for layer, count in layers.items()}
    counts = ClientCounts(
        sent=sent, ok=ok, admission=admission, aborted=aborted, by_layer=by_layer
    )
    assert counts.sent == ok + admission + aborted + counts.other
    return counts


def vllm(success: int | None, refused: int | None, *, resets: int = 0) -> EngineDeltas:
    return EngineDeltas(
        engine="vllm", success=success, admission_rejections=refused, resets=resets
    )


@dataclass(frozen=True)
class Account:
    client: ClientCounts
    engine: EngineDeltas
    difference: int | None
    status: str
    finding: str
    notes: tuple[str, ...] = field(default=())


ACCOUNTS = {
    "one burst, exact": Account(
        client(40, 8, 32),
        vllm(8, 32),
        0,
        "exact",
        "40 sent = 8 finished + 32 refused at admission",
    ),
    "seven bursts, exact": Account(
        client(280, 56, 224), vllm(56, 224), 0, "exact", "280 sent = 56 finished"
    ),
    "some never reached the engine": Account(
        client(40, 10, 2, gateway=20, network=5, router=3),
        vllm(10, 2),
        0,
        "exact",
        "28 lost elsewhere",
        ("28 never reached the engine",),
    ),
    "a router that retries": Account(
        client(40, 8, 32),
        vllm(8, 160),
        128,
        "explained",
        "the engine refused 160 but the client saw 32: something upstream retries, ×5",  # noqa: RUF001
    ),
    "a router that retries, not evenly": Account(
        client(10, 0, 10),
        vllm(0, 43),
        33,
        "explained",
        "×4.3 on average",  # noqa: RUF001
    ),
    "retries that were taken in the end": Account(
        client(40, 40), vllm(40, 12), 12, "unexplained", "retries until one is taken"
    ),
    "aborts are not counted": Account(
        client(10, 6, aborted=4),
        vllm(6, 0),
        0,
        "exact",
        "4 aborted",
        ("aborts are not counted by this engine: 4",),
    ),
    "the engine finished what we gave up": Account(
        client(10, 6, aborted=4), vllm(9, 0), 3, "explained", "finished 3 that we had"
    ),
    "others use the engine": Account(
        client(10, 10), vllm(25, 0), 15, "unexplained", "15 more than we saw end well"
    ),
    "another replica answered": Account(
        client(10, 10), vllm(6, 0), -4, "unexplained", "4 answers we had whole"
    ),
    "refusals of another engine": Account(
        client(10, 4, 6), vllm(4, 2), -4, "unexplained", "4 were not this engine's"
    ),
    "the engine restarted": Account(
        client(10, 8, network=2),
        vllm(3, 0, resets=1),
        None,
        "unknown",
        "counter reset: the engine restarted once",
        (),
    ),
    "a counter is missing": Account(
        client(10, 8, 2),
        replace(vllm(8, None), missing=("vllm:admission_rejections_total",)),
        None,
        "unknown",
        "counters missing: vllm:admission_rejections_total;",
    ),
    "an engine that counts no refusals": Account(
        client(10, 7, 3),
        EngineDeltas(engine="SGLang", success=7, aborted=0),
        0,
        "exact",
        "10 sent = 7 finished + 3 refused",
        ("refusals are not counted by this engine: 3",),
    ),
    "an engine that counts nothing": Account(
        client(10, 10),
        EngineDeltas(engine="llama.cpp"),
        None,
        "unknown",
        "keeps no such account",
    ),
    "aborts it counts otherwise": Account(
        client(10, 6, aborted=4),
        EngineDeltas(engine="sglang", success=6, aborted=2),
        -2,
        "explained",
        "aborted 2 and we gave up 4",
    ),
    "nothing was sent": Account(client(0, 0), vllm(0, 0), 0, "exact", "0 sent"),
}


@pytest.mark.parametrize("name", ACCOUNTS)
def test_account(name: str) -> None:
    it = ACCOUNTS[name]
    found = reconcile(it.client, it.engine)
    assert found.difference == it.difference
    assert found.status == it.status
    assert it.finding in found.finding
    for note in it.notes:
        assert any(note in line for line in found.findings), found.findings


def test_amplification() -> None:
    assert reconcile(client(40, 8, 32), vllm(8, 160)).amplification == 5
    assert reconcile(client(40, 40), vllm(40, 0)).amplification is None
    assert reconcile(client(40, 8, 32), vllm(8, None)).amplification is None


def test_missing_is_never_0() -> None:
    engine = reconcile(client(4, 4), EngineDeltas(engine="vllm")).engine
    assert set(engine.values()) == {None}


def test_several_servers_and_ranks_are_summed() -> None:
    total = add_deltas([vllm(5, 20), vllm(3, 12), vllm(0, 0)])
    assert total is not None
    assert (total.success, total.admission_rejections, total.processes) == (8, 32, 3)
    found = reconcile(client(40, 8, 32), total)
    assert found.difference == 0
    assert found.finding.endswith("over 3 processes")


def test_a_part_is_no_total() -> None:
    total = add_deltas([vllm(5, 20), vllm(3, None)])
    assert total is not None
    assert total.success == 8
    assert total.admission_rejections is None


def test_no_process_is_no_total() -> None:
    assert add_deltas([]) is None


def test_a_restart_of_one_rank_spoils_the_sum() -> None:
    total = add_deltas([vllm(5, 20), vllm(3, 12, resets=1)])
    assert total is not None
    found = reconcile(client(40, 8, 32), total)
    assert (found.difference, found.status) == (None, "unknown")


def test_the_difference_is_what_the_parts_differ_by() -> None:
    """For any counts: difference = accounted for - sent."""
    for success in range(0, 12, 3):
        for refused in range(0, 12, 4):
            ours = client(10, 5, 3, aborted=1, unknown=1)
            found = reconcile(ours, vllm(success, refused))
            assert found.difference == (success - 5) + (refused - 3)
            assert (found.status == "exact") == ((success, refused) == (5, 3))


def test_counts_of_records() -> None:
    busy = '{"error":{"message":"The engine is currently busy","code":503}}'
    too_long = '{"error":{"message":"maximum context length is 9","code":400}}'
    done = 'data: {"choices":[{"index":0,"delta":{"content":"a"},'
    done += '"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    records = [
        replayed(answer(done, 200, "text/event-stream")),
        replayed(answer(busy, 503)),
        replayed(answer(f"data: {busy}\n\n", 200, "text/event-stream")),
        replayed(answer(too_long, 400)),
        replayed(answer("local_rate_limited", 429, "text/plain")),
    ]
    attribute = Attributor(load_signatures())
    counts = ClientCounts.of((record, attribute(record)) for record in records)
    assert counts == client(5, 1, 2, engine_admission=1, gateway=1)


@pytest.mark.parametrize("engine", ENGINE_COUNTERS)
def test_every_engine_says_what_it_leaves_out(engine: str) -> None:
    names = names_of(engine)
    assert names.note or names.success
    assert names_of(engine.upper()) is names
