"""Where and how it is measured, and the truth server for each measurement."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.perf.build import Built
from tests.perf.truth import Pace, TruthServer, given_server, own_server

__all__ = ["Bench", "say"]


class Bench(NamedTuple):
    """What all measurements share.

    Attributes:
        client_core: where each client runs; ``server_core``: where the server does.
        rounds: how often what is compared alternates.
        seconds: for how long a load is offered.
        built: our own truth server; None where it could not be built.
        given: the binary of another, which is then used where it will do.
    """

    client_core: int
    server_core: int
    rounds: int
    seconds: float
    built: Built | None
    given: Path | None

    @contextmanager
    def serve(
        self, *, ttft_us: int = 20_000, certificate: Path | None = None
    ) -> Iterator[TruthServer]:
        """A truth server as long as the context lasts, 10 ms between two tokens."""
        pace = Pace(self.server_core, ttft_us)
        with tempfile.TemporaryDirectory() as name:
            if self.given is not None and certificate is None:
                with given_server(self.given, Path(name), pace) as server:
                    yield server
            else:
                assert self.built is not None
                path = self.built.path
                with own_server(path, Path(name), pace, certificate) as server:
                    yield server

    @property
    def no_tls(self) -> str | None:
        """Why TLS cannot be measured; None: it can."""
        return (
            "our own truth server is not built"
            if self.built is None
            else self.built.no_tls
        )

    def leave_client_core(self) -> None:
        """Keep ourselves off the core that is the client's."""
        others = os.sched_getaffinity(0) - {self.client_core}
        if others:
            os.sched_setaffinity(0, others)


def say(line: str) -> None:
    """Progress, where it does not mix with the page."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
