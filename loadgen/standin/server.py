"""One stand-in as a process: listen, say where, end when told."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import time

from aiohttp import web

from loadgen.clock import MonotonicClock
from loadgen.errors import UsageError
from loadgen.sim.engine import Engine
from loadgen.standin.endpoints import Endpoints
from loadgen.standin.meters import Meters
from loadgen.standin.options import StandinOptions
from loadgen.standin.pacer import Pacer, sleeper

__all__ = ["serve"]

KEEP_ALIVE_S = 5.0  # uvicorn's; a client that trusts longer ones finds out here
SHUTDOWN_S = 0.2

log = logging.getLogger("loadgen.standin")


async def serve(options: StandinOptions) -> None:
    """Serve until SIGTERM, SIGINT or, if asked for, the end of standard input.

    Once it listens, one line of JSON goes to standard output: url, pid and model.

    Raises:
        UsageError: it cannot listen there.
    """
    clock = MonotonicClock()
    sleep_until = sleeper(clock)
    engine = Engine(options.engine)
    meters = Meters(options.model, engine)
    pacer = Pacer(engine, meters, clock, sleep_until, options.speed)
    endpoints = Endpoints(options, pacer, meters, clock, sleep_until, int(time.time()))
    runner = web.AppRunner(
        endpoints.application(),
        handle_signals=False,
        handler_cancellation=True,
        access_log=None,
        keepalive_timeout=KEEP_ALIVE_S,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    try:
        url = await _listen(runner, options)
        ended = _end_signals()
        ready = {"url": url, "pid": os.getpid(), "model": options.model}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        log.info("stand-in engine on %s", url)
        await _run_until(pacer, ended, parent_stdin=options.parent_stdin)
    finally:
        await runner.cleanup()
    log.info("stand-in engine ended")


async def _listen(runner: web.AppRunner, options: StandinOptions) -> str:
    site = web.TCPSite(runner, options.host, options.port, backlog=4096)
    try:
        await site.start()
    except OSError as error:
        where = f"{options.host}:{options.port}"
        raise UsageError(f"cannot listen on {where}: {error.strerror}") from None
    port = runner.addresses[0][1]
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"http://{host}:{port}"


def _end_signals() -> asyncio.Event:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    return ended


async def _run_until(pacer: Pacer, ended: asyncio.Event, *, parent_stdin: bool) -> None:
    tasks: list[asyncio.Task[object]] = [
        asyncio.create_task(pacer.run()),
        asyncio.create_task(ended.wait()),
    ]
    if parent_stdin:
        tasks.append(asyncio.create_task(_stdin_closed()))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()  # a fault of ours is raised, not lost
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _stdin_closed() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    while await reader.read(4096):
        pass
