"""One run's folder: what is in it, what is missing, what was changed since."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

import msgspec

from loadgen.errors import RunDirError
from loadgen.model import Manifest, RequestRecord
from loadgen.store.files import atomic_file, clean_name, io_errors, sha256_of
from loadgen.store.lines import UNREADABLE, Index, LineStream
from loadgen.store.merge import (
    Attribute,
    Merged,
    Planned,
    ShardRecords,
    attributed,
    merge,
)
from loadgen.store.schema import check_schema

__all__ = ["Records", "RunDir"]

T = TypeVar("T")
MANIFEST_SCHEMA = "loadgen.manifest/1"
SUMMARY_SCHEMA = "loadgen.summary/1"
_SEAL_TAIL_BYTES = 4096


class Records(Protocol):
    """Records in order of ``seq``; ``flaws`` are told once they were passed."""

    flaws: list[str]

    def __iter__(self) -> Iterator[RequestRecord]: ...


@dataclass(frozen=True, slots=True)
class RunDir:
    """The folder of one run. Making the object touches nothing on the disk."""

    path: Path

    @classmethod
    def create(cls, out: Path, name: str, started_utc: datetime) -> RunDir:
        """Make ``<out>/<UTC time>-<name>/``; a taken name gets a number behind it.

        Raises:
            RunDirError: ``out`` cannot be written.
        """
        stamp = started_utc.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
        base = f"{stamp}-{clean_name(name)}"
        with io_errors("make a run folder in", out):
            out.mkdir(parents=True, exist_ok=True)
            attempt = 1
            while True:
                path = out / (base if attempt == 1 else f"{base}-{attempt}")
                try:
                    path.mkdir()
                except FileExistsError:
                    attempt += 1
                else:
                    return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """A run made before, finished or not.

        Raises:
            RunDirError: there is none at ``path``.
        """
        run = cls(path)
        if run.manifest_path.is_file():
            return run
        if not path.exists():
            raise RunDirError(f"{path} does not exist")
        if not path.is_dir():
            raise RunDirError(f"{path} is a file", "name the run's folder instead")
        inner = sorted(p.parent.name for p in path.glob("*/manifest.json"))
        if inner:
            raise RunDirError(
                f"{path} holds {len(inner)} runs and is none itself",
                f"name one of them, the last is {path / inner[-1]}",
            )
        raise RunDirError(f"{path} is not a run folder: it has no manifest.json")

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def schedule_path(self) -> Path:
        return self.path / "schedule.jsonl"

    @property
    def requests_path(self) -> Path:
        return self.path / "requests.jsonl"

    @property
    def warmup_path(self) -> Path:
        return self.path / "warmup.jsonl"

    @property
    def telemetry_path(self) -> Path:
        return self.path / "telemetry.jsonl"

    @property
    def client_path(self) -> Path:
        """What the issuing processes said of themselves, for a later judgement."""
        return self.path / "client.json"

    @property
    def summary_path(self) -> Path:
        return self.path / "summary.json"

    @property
    def report_path(self) -> Path:
        return self.path / "report.html"

    def shard_path(self, process: int) -> Path:
        """Where issuing process ``process`` appends its records."""
        return self.path / f"requests-{process}.jsonl"

    def progress_path(self, process: int) -> Path:
        """The block of live counters of issuing process ``process``."""
        return self.path / f"progress-{process}.bin"

    def shards(self) -> list[Path]:
        """Shards not merged yet, in the order of their processes."""
        return sorted(
            self.path.glob("requests-*.jsonl"), key=lambda p: (len(p.name), p.name)
        )

    @property
    def is_unmerged(self) -> bool:
        """Whether the run is still going, or was killed before it could merge."""
        return not self.requests_path.exists()

    def write_json(self, path: Path, value: Any) -> None:
        """Write one JSON file whole or not at all, indented for people.

        ``value`` is anything msgspec encodes, or bytes of JSON as they are.
        """
        raw = value if isinstance(value, bytes) else msgspec.json.encode(value)
        with atomic_file(path) as out:
            out.write(msgspec.json.format(raw, indent=2) + b"\n")

    def read_json(self, path: Path, as_type: type[T], schema: str | None = None) -> T:
        """Read one JSON file.

        Raises:
            RunDirError: missing, torn, not what it should be, or of another
                schema, newer or older.
        """
        with io_errors("read", path):
            raw = path.read_bytes()
        try:
            if schema is not None:
                check_schema(path, raw, schema)
            return msgspec.json.decode(raw, type=as_type)
        except UNREADABLE as error:
            raise RunDirError(f"{path} is damaged: {error}") from error

    def write_manifest(self, manifest: Manifest) -> None:
        self.write_json(self.manifest_path, manifest)

    def read_manifest(self) -> Manifest:
        return self.read_json(self.manifest_path, Manifest, MANIFEST_SCHEMA)

    def write_summary(self, summary: Any) -> None:
        self.write_json(self.summary_path, summary)

    def read_summary(self, as_type: type[T]) -> T | None:
        """The judgement as it was written; None when the run has none yet."""
        if not self.summary_path.exists():
            return None
        return self.read_json(self.summary_path, as_type, SUMMARY_SCHEMA)

    def merge_records(
        self, attribute: Attribute, offered: int, planned: Planned | None = None
    ) -> Merged:
        """Make ``requests.jsonl`` out of the shards, then remove them.

        Only the process that started the issuers may call this, after they ended:
        a shard removed under a living one would lose what it writes next. A
        second call reads ``requests.jsonl`` itself and attributes anew.

        Args:
            attribute: which layer lost a request; asked for all that are not ok.
            offered: number of requests of the schedule.
            planned: the record standing for a ``seq`` that has none; without it
                such requests are missing from the file.
        """
        merged = merge(
            self._index(offered),
            self.requests_path,
            attribute=attribute,
            planned=planned,
        )
        with io_errors("remove the shards of", self.path):
            for shard in self.shards():
                shard.unlink()
        return merged

    def records(
        self,
        *,
        offered: int,
        attribute: Attribute | None = None,
        planned: Planned | None = None,
    ) -> Records:
        """All records in order of ``seq``, of a run in any state; writes nothing.

        Args:
            offered: number of requests of the schedule.
            attribute: attributes anew, as for a judgement by a newer version;
                without it the attributions stay as they were written.
            planned: as in ``merge_records``.
        """
        if self.is_unmerged:
            index = self._index(offered)
            return ShardRecords(index, attribute=attribute, planned=planned)
        return _Attributed(LineStream(self.requests_path, RequestRecord), attribute)

    def warmup_records(self) -> LineStream[RequestRecord]:
        """Records of the requests sent before t0, never counted; maybe none."""
        return LineStream(self.warmup_path, RequestRecord)

    def _index(self, offered: int) -> Index:
        sources = self.shards() if self.is_unmerged else [self.requests_path]
        return Index(sources, offered)

    def edits(self) -> list[str]:
        """One line for each sealed file that is not as it was; empty when all are.

        The schedule is held against the manifest, the other files against the
        digests in ``summary.json``.
        """
        said = []
        manifest = self.read_manifest()
        if self.schedule_path.exists():
            found = sha256_of(self.schedule_path, until=_seal_offset)
            if found != manifest.schedule_digest:
                said.append("schedule.jsonl is not the schedule that was offered")
        sealed = self.read_summary(_Sealed)
        for name, digest in sorted((sealed.files if sealed else {}).items()):
            path = self.path / name
            if Path(name).name != name or not path.is_file():
                said.append(f"{name} is missing")
            elif sha256_of(path) != digest:
                said.append(f"{name} was changed after it was judged")
        return said


class _Sealed(msgspec.Struct):
    files: dict[str, str] = {}


class _Attributed:
    """Records of a file, attributed anew where asked."""

    def __init__(
        self, stream: LineStream[RequestRecord], attribute: Attribute | None
    ) -> None:
        self._stream, self._attribute = stream, attribute
        self.flaws = stream.flaws

    def __iter__(self) -> Iterator[RequestRecord]:
        for record in self._stream:
            yield (
                record
                if record.outcome == "ok"
                else attributed(record, self._attribute)
            )


def _seal_offset(file: BinaryIO) -> int:
    """Where the last line of a schedule, its seal, begins."""
    end = file.seek(0, os.SEEK_END)
    start = max(0, end - _SEAL_TAIL_BYTES)
    file.seek(start)
    tail = file.read(end - start)
    return start + tail.rstrip(b"\n").rfind(b"\n") + 1
