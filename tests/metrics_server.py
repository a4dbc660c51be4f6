"""An HTTP server on loopback whose /metrics misbehaves as it is told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Answering", "MetricsServer", "metrics_server"]

Answering = Callable[[BaseHTTPRequestHandler], None]


@dataclass
class MetricsServer:
    """Where it listens, and the headers of every question.

    Attributes:
        release: set at the end, so that answers that hang let go.
    """

    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)


@contextmanager
def metrics_server(
    answer: Callable[[MetricsServer, BaseHTTPRequestHandler], None],
) -> Iterator[MetricsServer]:
    """Answer every GET by calling ``answer``."""
    state = MetricsServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.asked.append({k.lower(): v for k, v in self.headers.items()})
            try:
                answer(state, self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.release.set()
        server.shutdown()
        server.server_close()
        thread.join()
