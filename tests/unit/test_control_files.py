"""Files a person names: a pipe is as good as a file, an endless device is not."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest

from loadgen.control import files
from loadgen.control.files import lines_of, text_of
from loadgen.control.logs import LogFile
from loadgen.errors import UsageError


def test_line_ends_are_made_plain(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\r\nb\rc\n")
    assert text_of(tmp_path / "f", "--f", 100) == "a\nb\nc\n"


def test_a_pipe_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"key",))
    writer.start()
    assert text_of(pipe, "--api-key-file", 100) == "key"
    writer.join()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/dev/zero", "is larger than 1,000 bytes"),
        ("/", "Is a directory"),
        ("/no/such", "No such file"),
    ],
)
def test_what_cannot_be_read_is_named(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"--f {name}.*{said}"):
        text_of(Path(name), "--f", 1000)


def test_a_loop_and_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match="symbolic links"):
        text_of(tmp_path / "loop", "--f", 10)
    (tmp_path / "b").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not text"):
        text_of(tmp_path / "b", "--f", 10)


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 10)
    assert list(lines_of(io.BytesIO(b"a\nb"))) == [b"a\n", b"b"]
    with pytest.raises(UsageError, match="line 2 is longer"):
        list(lines_of(io.BytesIO(b"a\n" + b"\0" * 11)))


def test_a_log_is_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(UsageError, match="no regular file"):
            LogFile.from_now(path, "--server-log")
