"""An HTTP server on loopback that keeps every byte of every POST it is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Recording", "recording_server"]

CHAT_ANSWER = (
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":'
    b'[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":'
    b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
BUSY = b'{"error":{"message":"overloaded","type":"service_unavailable","code":503}}'
MODELS = b'{"object":"list","data":[{"id":"m","object":"model"}]}'

Answer = tuple[int, str, bytes]
"""Status, content type, body."""


@dataclass
class Recording:
    """What was posted, and how GETs are answered.

    Attributes:
        refuse_every: every so many-th POST gets a 503; 0 refuses none.
        gets: answers by path; anything else is 404.
        side_posts: answers to questions by POST that are no load.
    """

    url: str = ""
    refuse_every: int = 0
    gets: dict[str, Answer] = field(
        default_factory=lambda: {"/v1/models": (200, "application/json", MODELS)}
    )
    side_posts: dict[str, Answer] = field(default_factory=dict)
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def post(self, headers: dict[str, str], body: bytes) -> Answer:
        with self.lock:
            self.bodies.append(body)
            self.headers.append(headers)
            count = len(self.bodies)
        if self.refuse_every and count % self.refuse_every == 0:
            return 503, "application/json", BUSY
        return 200, "text/event-stream", CHAT_ANSWER


def _handler(recording: Recording) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            missing = (404, "application/json", b"{}")
            self._answer(recording.gets.get(self.path, missing))

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            body = self.rfile.read(length)
            if self.path in ("/tokenize", "/apply-template"):
                missing = (404, "application/json", b"{}")
                self._answer(recording.side_posts.get(self.path, missing))
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            self._answer(recording.post(headers, body))

        def _answer(self, answer: Answer) -> None:
            status, content_type, body = answer
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextmanager
def recording_server(recording: Recording) -> Iterator[Recording]:
    """Serve until the block ends; ``recording.url`` says where."""
    server = _Server(("127.0.0.1", 0), _handler(recording))
    recording.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield recording
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
