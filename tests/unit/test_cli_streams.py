"""Standard streams whose reader left, whose disk is full, or that never were."""

from __future__ import annotations

import errno
import io
import sys

import pytest

from loadgen.cli.streams import standing_streams


class Broken(io.StringIO):
    """Fails at each write."""

    def __init__(self, code: int) -> None:
        super().__init__()
        self._code = code

    def write(self, text: str) -> int:
        raise OSError(self._code, "broken")


@pytest.mark.parametrize("code", [errno.EPIPE, errno.ENOSPC, errno.EIO])
def test_words_aside_are_worth_no_failure(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr(sys, "stderr", Broken(code))
    with standing_streams():
        sys.stderr.write("progress")
        sys.stderr.flush()


def test_a_reader_that_left_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Broken(errno.EPIPE))
    with standing_streams():
        assert sys.stdout.write("result") == 6


def test_a_result_that_cannot_be_written_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Broken(errno.ENOSPC))
    with standing_streams(), pytest.raises(OSError, match="broken"):
        sys.stdout.write("result")


def test_closed_ones_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    with standing_streams():
        opened = [sys.stdin, sys.stdout, sys.stderr]
        sys.stdout.write("x")
        sys.stderr.write("x")
        assert not sys.stdout.isatty()
        assert sys.stdin.read() == ""
    for stream in opened:
        stream.close()


def test_what_was_there_is_there_again() -> None:
    before = sys.stdout, sys.stderr
    with standing_streams():
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr) == before
