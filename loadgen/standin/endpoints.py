"""The HTTP face: what each endpoint does with a request.

A generating request passes, in this order: the fault layers in front, its own
syntax, the model's name, the first admission check (HTTP 503), rendering and
tokenising, its length, the status line of a stream, and the second admission check
(503 again, or an error inside the stream that has already begun with 200).
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import socket
import struct
from collections.abc import Iterator
from typing import Never

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from loadgen import __version__
from loadgen.clock import Clock
from loadgen.standin import errors, shapes, tokens
from loadgen.standin.asked import (
    ChatBody,
    CompletionBody,
    StreamOptions,
    TokenizeBody,
    answer_length,
    read,
)
from loadgen.standin.errors import ApiError
from loadgen.standin.layers import Fault, Front, fault_before
from loadgen.standin.meters import Meters
from loadgen.standin.options import StandinOptions
from loadgen.standin.pacer import Pacer, SleepUntil, Ticket
from loadgen.standin.shapes import Head, Json, Shape
from loadgen.units import NS_PER_S

__all__ = ["SERVER_NAME", "Endpoints"]

SERVER_NAME = f"loadgen-stand-in/{__version__}"
MAX_BODY_BYTES = 64 * 2**20
REQUEST_ID = "X-Request-Id"
_RST_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s


class _Answer(msgspec.Struct, frozen=True):
    """What one generating request gets: its shape, its head and its words."""

    shape: Shape
    head: Head
    words: Iterator[str]
    max_tokens: int


class Endpoints:
    """The endpoints of one stand-in. Instants are of ``clock``."""

    def __init__(
        self,
        options: StandinOptions,
        pacer: Pacer,
        meters: Meters,
        clock: Clock,
        sleep_until: SleepUntil,
        created_s: int,
    ) -> None:
        self._options = options
        self._max_model_len = options.engine.max_model_len
        self._pacer = pacer
        self._meters = meters
        self._clock = clock
        self._sleep_until = sleep_until
        self._created_s = created_s
        self._started_ns = clock.now_ns()
        self._front = Front(options.faults, self._started_ns)

    def application(self) -> web.Application:
        """The endpoints as an aiohttp application."""
        app = web.Application(
            client_max_size=MAX_BODY_BYTES, middlewares=[self._outermost]
        )
        app.on_response_prepare.append(self._mark)
        app.add_routes(
            [
                web.post("/v1/chat/completions", self._chat),
                web.post("/v1/completions", self._completion),
                web.get("/v1/models", self._models),
                web.post("/tokenize", self._tokenize),
                web.get("/health", self._health),
                web.get("/version", self._version),
                web.get("/metrics", self._metrics),
            ]
        )
        return app

    # -- around every endpoint

    @web.middleware
    async def _outermost(
        self, request: web.Request, handler: Handler
    ) -> web.StreamResponse:
        request[REQUEST_ID] = request.headers.get(REQUEST_ID) or secrets.token_hex(8)
        response: web.StreamResponse
        try:
            if request.path != "/metrics":
                _raise(self._front.loading(self._clock.now_ns()))
            response = await handler(request)
        except ApiError as error:
            response = _json(error.content, error.status, error.headers)
        except web.HTTPException as error:
            response = _json({"detail": error.reason}, error.status)
        resource = request.match_info.route.resource
        handler_name = "none" if resource is None else resource.canonical
        self._meters.answered(handler_name, request.method, response.status)
        return response

    async def _mark(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers["Server"] = SERVER_NAME
        response.headers[REQUEST_ID] = request[REQUEST_ID]

    # -- endpoints

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return _json({"version": f"{__version__}+stand-in"})

    async def _models(self, request: web.Request) -> web.Response:
        return _json(
            shapes.models(self._options.model, self._max_model_len, self._created_s)
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(
            body=self._meters.render(),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = read(await request.read(), TokenizeBody)
        self._know(body.model)
        pieces = body.pieces()
        strings = pieces if body.return_token_strs else None
        ids = tokens.token_ids(pieces)
        return _json(shapes.tokenized(ids, self._max_model_len, strings))

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, ChatBody, shapes.Chat())

    async def _completion(self, request: web.Request) -> web.StreamResponse:
        return await self._generate(request, CompletionBody, shapes.Completion())

    # -- generating

    async def _generate(
        self,
        request: web.Request,
        kind: type[ChatBody] | type[CompletionBody],
        shape: Shape,
    ) -> web.StreamResponse:
        arrived_ns = self._clock.now_ns()
        _raise(self._front.rate_limited(arrived_ns))
        raw = await request.read()
        body = read(raw, kind)
        self._know(body.model)
        if refusal := self._front.busy():
            self._meters.rejected(refusal)
            raise errors.refused(refusal)
        self._admit(body.n)
        if body.n != 1:
            raise errors.unsupported("n", "way to give several answers")
        request[REQUEST_ID] = (
            request.headers.get(REQUEST_ID) or body.request_id or request[REQUEST_ID]
        )
        answer = self._plan(request[REQUEST_ID], body, raw, shape)
        await self._sleep_until(arrived_ns + self._front_ns(answer.head.prompt_tokens))
        if body.stream:
            return await self._stream(request, answer, arrived_ns)
        return await self._whole(request, answer, arrived_ns)

    def _know(self, model: str | None) -> None:
        if model is not None and model != self._options.model:
            raise errors.unknown_model(model, self._options.model)

    def _admit(self, n: int = 1) -> None:
        if refusal := self._pacer.refusal(n):
            raise errors.refused(refusal)

    def _front_ns(self, prompt_tokens: int) -> int:
        options = self._options
        front_ns = options.front_ns + options.front_token_ns * prompt_tokens
        return round(front_ns / options.speed) + (options.faults.delay_headers_ns or 0)

    def _plan(
        self, request_id: str, body: ChatBody | CompletionBody, raw: bytes, shape: Shape
    ) -> _Answer:
        prompt_tokens = max(1, len(body.pieces()))
        max_tokens, finish_reason = answer_length(
            body.answer_tokens, prompt_tokens, self._max_model_len
        )
        wanted = body.stream_options or StreamOptions()
        elapsed_ns = self._clock.now_ns() - self._started_ns
        head = Head(
            request_id=request_id,
            model=self._options.model,
            created_s=self._created_s + elapsed_ns // NS_PER_S,
            prompt_tokens=prompt_tokens,
            finish_reason=finish_reason,
            include_usage=wanted.include_usage,
            continuous_usage=wanted.include_usage and wanted.continuous_usage_stats,
        )
        seed = hashlib.sha256(raw).digest()
        return _Answer(shape, head, tokens.answer_tokens(seed), max_tokens)

    def _submit(self, answer: _Answer, arrived_ns: int) -> Ticket:
        head = answer.head
        return self._pacer.submit(
            head.prompt_tokens, answer.max_tokens, arrived_ns, head.finish_reason
        )

    async def _stream(
        self, request: web.Request, answer: _Answer, arrived_ns: int
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream; charset=utf-8"}
        )
        await response.prepare(request)
        try:
            self._admit()
            ticket = self._submit(answer, arrived_ns)
            try:
                await self._send_tokens(request, response, answer, ticket)
            finally:
                self._pacer.release(ticket)
        except ApiError as error:
            await response.write(answer.shape.stream_error(error))
        await response.write(shapes.DONE)
        await response.write_eof()
        return response

    async def _send_tokens(
        self,
        request: web.Request,
        response: web.StreamResponse,
        answer: _Answer,
        ticket: Ticket,
    ) -> None:
        shape, head, count = answer.shape, answer.head, 0
        while count < answer.max_tokens:
            await self._break(request, count)
            count = await ticket.next_token()
            if count == 1 and (opening := shape.opening(head)):
                await response.write(shapes.sse(opening))
            last = count == answer.max_tokens
            event = shape.token(head, next(answer.words), count, last=last)
            await response.write(shapes.sse(event))
        await self._break(request, count)
        if head.include_usage:
            await response.write(shapes.sse(shape.usage(head, count)))

    async def _whole(
        self, request: web.Request, answer: _Answer, arrived_ns: int
    ) -> web.Response:
        self._admit()
        ticket = self._submit(answer, arrived_ns)
        count = 0
        try:
            while count < answer.max_tokens:
                await self._break(request, count)
                count = await ticket.next_token()
            await self._break(request, count)
        finally:
            self._pacer.release(ticket)
        text = "".join(next(answer.words) for _ in range(count))
        return _json(answer.shape.whole(answer.head, text, count))

    async def _break(self, request: web.Request, sent_tokens: int) -> None:
        """Do what the faults ask for once so many tokens are out."""
        fault = fault_before(self._options.faults, sent_tokens)
        if fault is None:
            return
        if fault is Fault.ERROR:
            raise errors.engine_fault()
        if fault is not Fault.STALL and (transport := request.transport) is not None:
            if fault is Fault.RESET:
                raw_socket: socket.socket = transport.get_extra_info("socket")
                raw_socket.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE
                )
            transport.close()
        await _for_ever()  # until the connection's end cancels this request


async def _for_ever() -> Never:
    while True:
        await asyncio.Event().wait()


def _raise(error: ApiError | None) -> None:
    if error is not None:
        raise error


def _json(
    content: Json, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(content),
        status=status,
        headers={**(headers or {}), "Content-Type": "application/json"},
    )
