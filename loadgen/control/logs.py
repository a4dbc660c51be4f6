"""Logs of the server and of a gateway, joined with a run's requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from loadgen.analysis.evidence import Evidence, refine
from loadgen.analysis.evidence_gateway import parse_access_log
from loadgen.analysis.evidence_server import join, parse_server_log
from loadgen.errors import UsageError
from loadgen.model import Attribution, RequestRecord

__all__ = ["Attribute", "LogFile", "Logs"]

MAX_LINE_BYTES = 1 << 20

Attribute = Callable[[RequestRecord], Attribution | None]


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log another program writes, read from where it ended before the run."""

    path: Path
    start: int = 0

    @classmethod
    def from_now(cls, path: Path, flag: str) -> LogFile:
        """Skip what is in it already.

        Raises:
            UsageError: it cannot be read.
        """
        if path.exists() and not path.is_file():
            raise UsageError(f"{flag} {path} is no regular file")
        try:
            with path.open("rb") as file:
                return cls(path, file.seek(0, 2))
        except OSError as error:
            raise UsageError(f"{flag} {path}: {error.strerror}") from None

    def lines(self) -> Iterator[str]:
        """The lines written since; all of them where the file was rotated."""
        with self.path.open("rb") as file:
            file.seek(self.start if self.path.stat().st_size >= self.start else 0)
            while line := file.readline(MAX_LINE_BYTES):
                yield line.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """The logs at hand; None: not given."""

    server: LogFile | None = None
    gateway: LogFile | None = None

    def refining(
        self, attribute: Attribute, records: Callable[[], Iterable[RequestRecord]]
    ) -> Attribute:
        """An attribution that also heeds what the logs say of each request.

        Args:
            attribute: from the answer alone.
            records: the run's records, read anew at each call.
        """
        if self.server is None and self.gateway is None:
            return attribute
        wanted = {record.request_id for record in records()}
        said: dict[int, list[Evidence]] = {}
        by_id: dict[str, Evidence] = {}
        if self.server is not None:
            log = parse_server_log(self.server.lines(), wanted)
            for seq, evidence in join(records(), log):
                said.setdefault(seq, []).append(evidence)
        if self.gateway is not None:
            lines = parse_access_log(self.gateway.lines(), wanted)
            by_id = {line.request_id: line for line in lines}

        def refined(record: RequestRecord) -> Attribution | None:
            attribution = attribute(record)
            if attribution is None:
                return None
            if record.request_id in by_id:
                attribution = refine(attribution, by_id[record.request_id])
            for evidence in said.get(record.seq, ()):
                attribution = refine(attribution, evidence)
            return attribution

        return refined
