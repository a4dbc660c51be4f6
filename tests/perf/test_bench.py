"""The bench's own sums, and its truth server's log. Nothing here looks at a speed."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from loadgen.units import NS_PER_MS, NS_PER_S
from tests.certificate import make_certificate
from tests.perf.build import Built, CannotBuildError, build
from tests.perf.clients import Ours
from tests.perf.page import cell
from tests.perf.search import highest
from tests.perf.trial import Client, Load, Stamped, Trial, Watch, judge
from tests.perf.truth import Pace, Served, TruthServer, own_server

NOBODY = Watch(os.getpid(), every_s=1.0)
LOAD = Load(10.0, 0.2, 3)


def ns(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_errors_are_against_the_servers_instants() -> None:
    served = [Served("a", 1_000, 200, ns(5_000, 6_000, 7_000))]
    served += [Served("b", 12 * NS_PER_MS, 200, ns(20 * NS_PER_MS))]
    exact = np.array([True, False, True])
    stamped = {
        "a": Stamped(500, 800, ns(5_010, 6_500, 7_030), exact),
        "b": Stamped(0, 1, ns()),  # it says it saw none
    }
    trial = judge(LOAD, served, stamped, watch=NOBODY, cpu_s=1.0, began_ns=0)
    assert (trial.asked, trial.whole, trial.tokens) == (2, 1, 4)
    assert trial.lag.tolist() == [500, 12 * NS_PER_MS]
    assert trial.late_share == 0.5
    assert trial.ttft_error.tolist() == [(5_010 - 800) - (5_000 - 1_000)]
    assert trial.itl_error.tolist() == []  # no gap has two exact ends
    assert trial.coalesced_share == 0.5
    assert trial.launch_s == 1e-6


def test_who_says_nothing_is_held_to_a_steady_grid() -> None:
    served = [
        Served("", read_ns, 200, ns(read_ns + 1))
        for read_ns in (50, NS_PER_S // 10 + 50 + 11 * NS_PER_MS)
    ]
    trial = judge(LOAD, served, {}, watch=NOBODY)
    assert trial.whole == 2
    assert trial.late_share == 0.5
    assert trial.peak == 1
    missing = judge(LOAD, served[:1], {}, watch=NOBODY)
    assert missing.late_share == 0.5


class Fake:
    """Keeps rates up to a limit."""

    name = "fake"
    coalesces = True
    first_rps = 100.0

    def __init__(self, limit_rps: float) -> None:
        self.limit_rps = limit_rps

    def offer(self, server: TruthServer, load: Load) -> Trial:
        late = 0.0 if load.rate_rps <= self.limit_rps else 0.02
        return Trial(
            asked=1,
            whole=1,
            tokens=1,
            late_share=late,
            lag=np.empty(0),
            coalesced_share=0.0,
        )


@pytest.mark.parametrize("limit_rps", [3.0, 100.0, 777.0])
def test_the_highest_rate_is_found_from_either_side(limit_rps: float) -> None:
    client: Client = Fake(limit_rps)
    server: TruthServer = SimpleNamespace()
    best = highest(client, server, Load(100.0, 1.0, 1), lambda line: None)
    assert best is not None
    assert best.refused_rps is not None
    assert best.rate_rps <= limit_rps < best.refused_rps <= 1.1 * best.rate_rps
    assert highest(Fake(0.1), server, Load(9.0, 1.0, 1), lambda line: None) is None


def test_a_cell_is_a_median_with_its_range() -> None:
    assert cell([3.0, None, 1.0, 2.0]) == "2 (1 to 3)"
    assert cell([2.0, 2.0], ".1f") == "2.0"
    assert cell([None]) == "-"


@pytest.fixture(scope="module")
def built() -> Built:
    try:
        return build()
    except CannotBuildError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("tls", [False, True])
def test_the_truth_server_notes_what_it_serves(
    built: Built, tmp_path: Path, tls: bool
) -> None:
    if tls and built.no_tls is not None:
        pytest.skip(built.no_tls)
    certificate = make_certificate(tmp_path).path if tls else None
    pace = Pace(core=-1, ttft_us=2_000, itl_us=1_000)
    core = min(os.sched_getaffinity(0))
    with own_server(built.path, tmp_path, pace, certificate) as server:
        trial = Ours(core).offer(server, Load(100.0, 0.1, 5))
        assert (trial.asked, trial.whole, trial.tokens) == (10, 10, 50)
        server.open_log()
        assert server.served() == []
