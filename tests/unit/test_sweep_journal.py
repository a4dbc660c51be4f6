"""The journal is all that a sweep remembers; whatever happens to it is told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from loadgen.control.journal import (
    FILE_NAME,
    Begun,
    Dropped,
    Ended,
    Journal,
    Resumed,
    State,
    Stopped,
    read_state,
)
from loadgen.control.rates import Step
from loadgen.control.sweep_judging import summarise
from loadgen.errors import RunDirError
from tests.journals import AT, MET, journal, plan
from tests.sweeps import point_run, spoilt


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    wrote = journal(tmp_path)
    wrote.add(Begun(at_utc=AT, folder="a"))
    wrote.add(Ended(at_utc=AT, run=point_run(2.0, 99, folder="a")))
    wrote.add(Begun(at_utc=AT, folder="b"))
    read = read_state(tmp_path)
    assert read.plan == plan()
    assert read.met == [MET]
    assert read.runs == wrote.state.runs
    assert read.open == ["b"]
    assert read.done() == wrote.state.done()


def test_a_killed_sweep_tells_what_it_had_begun(tmp_path: Path) -> None:
    wrote = journal(tmp_path)
    wrote.add(Ended(at_utc=AT, run=point_run(2.0, 99)))
    wrote.add(Begun(at_utc=AT, folder="4rps-1"))
    found = summarise(read_state(tmp_path))
    assert found.progress.status == "unfinished"
    assert found.progress.abandoned == ["4rps-1"]
    assert found.progress.planned_runs == 4
    assert "1 of 4 runs made: killed" in found.progress.text
    going = summarise(wrote.state, going_on=True)
    assert "still going on" in going.progress.text


def test_a_line_torn_by_a_kill_is_told_and_what_follows_it_kept(
    tmp_path: Path,
) -> None:
    wrote = journal(tmp_path)
    path = tmp_path / FILE_NAME
    with path.open("ab") as out:
        out.write(b'{"event":"ended","at')
    again = Journal.open(tmp_path)
    again.add(Resumed(at_utc=AT))
    again.add(Ended(at_utc=AT, run=point_run(2.0, 99)))
    read = read_state(tmp_path)
    assert len(read.runs) == 1
    assert read.flaws == [f"{FILE_NAME}: line 3 cannot be read"]
    assert read.flaws[0] in summarise(read).findings
    assert wrote.state.runs == []


def test_a_resumed_and_dropped_run_are_told_in_the_end(tmp_path: Path) -> None:
    wrote = journal(tmp_path)
    wrote.add(Begun(at_utc=AT, folder="a"))
    wrote.add(Dropped(at_utc=AT, folder="a", why="the user stopped it"))
    wrote.add(Begun(at_utc=AT, folder="b"))
    stop = Stopped(at_utc=AT, status="interrupted", text="by the user", planned_runs=4)
    wrote.add(stop)
    assert summarise(wrote.state).progress.status == "interrupted"
    wrote.add(Resumed(at_utc="2026-12-01T01:00:00+00:00"))
    wrote.add(msgspec.structs.replace(stop, status="complete", text="complete"))
    found = summarise(wrote.state)
    assert found.progress.status == "complete"
    assert found.progress.abandoned == ["b", "a"]
    words = " ".join(found.findings)
    assert "2026-12-01T01:00:00" in words
    assert "the user stopped it" in words
    assert "killed" in words


def test_a_server_of_another_version_is_told(tmp_path: Path) -> None:
    wrote = journal(tmp_path)
    wrote.add(Ended(at_utc=AT, run=point_run(2.0, 99)))
    wrote.add(msgspec.structs.replace(MET, server_version="0.34.0"))
    found = summarise(wrote.state)
    assert any("0.33.0, 0.34.0" in words for words in found.findings)
    assert "engine_restarted" in found.knee.flags


def test_a_cache_that_warmed_up_over_the_runs_is_told(tmp_path: Path) -> None:
    """sta-18: the same prompts on a warm server are other prompts to the engine."""
    wrote = journal(tmp_path)
    wrote.add(Ended(at_utc=AT, run=point_run(2.0, 99, prefix_hit_rate=0.02)))
    wrote.add(Ended(at_utc=AT, run=point_run(4.0, 99, prefix_hit_rate=0.95)))
    assert any("hit rate" in words for words in summarise(wrote.state).findings)


def test_a_run_spoilt_on_our_side_gets_one_second_chance() -> None:
    state = State(plan())
    state.runs = [spoilt(2.0), point_run(4.0, 99)]
    assert state.once_more() == [Step(2.0, 0)]
    assert [one.ratio for one in state.done()] == [None, 0.99]
    state.runs.append(spoilt(2.0))
    assert state.once_more() == []
    state.runs[-1] = point_run(2.0, 98)
    assert state.once_more() == []
    assert [one.ratio for one in state.done()] == [0.98, 0.99]


def test_a_run_spoilt_otherwise_gets_none() -> None:
    state = State(plan())
    state.runs = [spoilt(2.0, code="internal")]
    assert state.once_more() == []


def test_no_sweep_another_version_and_a_sweep_without_server_are_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(RunDirError, match="not a sweep's folder"):
        read_state(tmp_path)
    path = tmp_path / FILE_NAME
    path.write_bytes(b'{"schema":"loadgen.sweep-journal/2"}\n')
    with pytest.raises(RunDirError, match="newer"):
        read_state(tmp_path)
    path.write_bytes(b'{"schema":"loadgen.sweep-journal/1"}\n')
    with pytest.raises(RunDirError, match="damaged"):
        read_state(tmp_path)
    path.write_bytes(b"\xff\xfe\n")
    with pytest.raises(RunDirError, match="damaged"):
        read_state(tmp_path)
    with pytest.raises(RunDirError, match="before it reached a server"):
        summarise(State(plan()))
