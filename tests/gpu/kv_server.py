"""A server whose requests really hold GPU memory: so many bytes a token.

It has no model: each request takes memory for its prompt, a little more with each
token, keeps the GPU busy writing over it, and gives all back at its end. What NVML
should see is therefore known. ``python -m tests.gpu.kv_server [--host-memory]``
prints one line of JSON with its URL once it listens.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.gpu.cuda import Block, Cuda, CudaError, Host, Memory

__all__ = ["BLOCK_BYTES", "BYTES_PER_TOKEN", "Held", "serve"]

BYTES_PER_TOKEN = 1 << 18
BLOCK_BYTES = 2 << 20
CAP = 32
TOKEN_S = 0.02
WRITES = 200
MODEL = "kv"


class Held:
    """The memory of one request; it grows in blocks."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._blocks: list[Block] = []

    def hold(self, tokens: int) -> None:
        """Have room for so many tokens, and write over the latest of it."""
        while len(self._blocks) * BLOCK_BYTES < tokens * BYTES_PER_TOKEN:
            self._blocks.append(self._memory.take(BLOCK_BYTES))
        self._memory.write(self._blocks[-1], BLOCK_BYTES, WRITES)

    def give_back(self) -> None:
        while self._blocks:
            self._memory.give_back(self._blocks.pop())


def words_in(body: dict[str, Any]) -> int:
    """Prompt tokens: words of all messages, and one each for its role."""
    return sum(1 + len(str(m.get("content", "")).split()) for m in body["messages"])


def answer(memory: Memory, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of one streamed answer."""
    prompt, wanted = words_in(body), int(body.get("max_tokens") or 16)
    held = Held(memory)
    try:
        memory.enter()
        due_s = time.monotonic()
        for number in range(1, wanted + 1):
            held.hold(prompt + number)
            due_s += TOKEN_S
            time.sleep(max(0.0, due_s - time.monotonic()))
            choice = {"index": 0, "delta": {"content": f"w{number} "}}
            yield event([{**choice, "finish_reason": None}])
        yield event([{"index": 0, "delta": {}, "finish_reason": "length"}])
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": wanted,
            "total_tokens": prompt + wanted,
        }
        yield event([]) | {"usage": usage}
    finally:
        held.give_back()


def event(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": "kv",
        "object": "chat.completion.chunk",
        "model": MODEL,
        "choices": choices,
    }


def serve(memory: Memory) -> ThreadingHTTPServer:
    """A server on a free port of loopback; the caller runs it."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(memory))
    server.daemon_threads = True
    return server


def handler(memory: Memory) -> type[BaseHTTPRequestHandler]:
    """What answers on one connection."""
    room = threading.BoundedSemaphore(CAP)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            known = self.path == "/v1/models"
            data = [{"id": MODEL, "object": "model"}] if known else []
            self.whole(200 if known else 404, {"object": "list", "data": data})

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            if self.path != "/v1/chat/completions":
                self.whole(404, {})
            elif not room.acquire(blocking=False):
                self.whole(503, {"error": {"message": f"{CAP} requests run already"}})
            else:
                try:
                    stream(self, memory, json.loads(raw))
                finally:
                    room.release()

        def whole(self, status: int, body: dict[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is logged."""

    return Handler


def stream(
    request: BaseHTTPRequestHandler, memory: Memory, body: dict[str, Any]
) -> None:
    """Send one answer, event by event."""
    request.send_response(200)
    request.send_header("Content-Type", "text/event-stream")
    request.send_header("Connection", "close")
    request.end_headers()
    request.close_connection = True
    try:
        for one in answer(memory, body):
            request.wfile.write(b"data: " + json.dumps(one).encode() + b"\n\n")
        request.wfile.write(b"data: [DONE]\n\n")
    except CudaError as error:
        told = {"error": {"message": str(error), "code": 500}}
        request.wfile.write(b"data: " + json.dumps(told).encode() + b"\n\n")
    except (BrokenPipeError, ConnectionResetError):
        return


def main() -> None:
    """Serve until this process is ended."""
    memory: Memory = Host() if "--host-memory" in sys.argv else Cuda()
    server = serve(memory)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
