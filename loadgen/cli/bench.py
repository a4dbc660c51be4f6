"""A server within reach, and everything read that is needed to offer to it."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from loadgen.analysis.goodput import Slo, parse_slo
from loadgen.cli.options import OfferFlags, TargetFlags
from loadgen.cli.planning import protocol_of
from loadgen.control.ask import open_session
from loadgen.control.limits import Limits, parse_limits
from loadgen.control.preflight import Found, connectable_address, look_at, look_behind
from loadgen.control.run import Server
from loadgen.control.secrets import api_key, parse_headers, to_hide
from loadgen.control.target import Target, parse_target
from loadgen.control.telemetry import (
    Telemetry,
    WhatToWatch,
    open_telemetry,
    parse_watch,
)
from loadgen.errors import UsageError
from loadgen.issue.config import Tls
from loadgen.model import Basis
from loadgen.standin.launch import start as start_standin
from loadgen.standin.options import StandinOptions
from loadgen.telemetry.vocabulary import load_vocabulary

__all__ = ["Bench", "Read", "reach", "read_flags", "tls_context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Flags read and found usable, before anything is started."""

    slo: Slo
    limits: Limits
    headers: list[tuple[str, str]]
    secrets: list[str]
    watch: WhatToWatch
    target: Target | None
    engine: Target | None
    count_tokens: Callable[[str], int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A server that was looked at, ready for one run or for many.

    Args:
        model: the one asked for, or the only one the server lists.
    """

    server: Server
    telemetry: Telemetry
    model: str


def read_flags(api: str, to: TargetFlags, how: OfferFlags) -> Read:
    """Read the flags that say where to and how.

    Raises:
        UsageError: naming the flag that cannot be used.
    """
    headers = parse_headers(to.header or ())
    key = api_key(to.api_key_env, to.api_key_file)
    secrets = to_hide(headers, key)
    protocol = protocol_of(api)
    if key is not None:
        headers.append(protocol.auth(key))
    own = {name.lower() for name, _ in headers}
    headers += [
        (name, value)
        for name, value in (*protocol.headers, ("Accept-Encoding", "identity"))
        if name.lower() not in own
    ]
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("content-type", "application/json"))
    if how.stamps not in ("auto", "user"):
        raise UsageError(f"--stamps {how.stamps!r} is neither auto nor user")
    if to.ca_file is not None and not to.ca_file.is_file():
        raise UsageError(f"--ca-file {to.ca_file} is no file")
    engine = to.engine_url and parse_target(to.engine_url, flag="--engine-url")
    metrics = to.metrics_url or ([f"{engine.url}/metrics"] if engine else ())
    return Read(
        slo=parse_slo(how.slo),
        limits=parse_limits(
            connect=how.connect_timeout,
            idle=how.idle_timeout,
            total=how.timeout,
            drain=how.drain,
        ),
        headers=headers,
        secrets=secrets,
        watch=parse_watch(metrics, to.series or (), to.gpu),
        target=None if to.url is None else parse_target(to.url),
        engine=engine or None,
        count_tokens=_local_tokenizer(to.tokenizer),
    )


def _local_tokenizer(path: Path | None) -> Callable[[str], int] | None:
    if path is None:
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError(
            "--tokenizer needs the package tokenizers", "pip install tokenizers"
        ) from None
    if not path.is_file():
        raise UsageError(f"--tokenizer {path} is no file", "give its tokenizer.json")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises bare Exception
        raise UsageError(f"--tokenizer {path}: {error}") from None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


async def reach(
    model: str | None,
    read: Read,
    to: TargetFlags,
    stack: AsyncExitStack,
    note: Callable[[str], None],
    standin: StandinOptions | None = None,
) -> Bench:
    """Start the stand-in where no server is named; look at what answers.

    Args:
        model: the one to ask for; None takes the only one the server lists.
        read: the flags.
        to: the flags as they were given.
        stack: closes and ends what is opened and started here.
        note: told what a person should know.
        standin: what a stand-in serves; None: its default engine.

    Raises:
        TargetError: it cannot be reached, or refuses us.
    """
    target, basis = read.target, Basis.MEASURED
    if target is None:
        engine = await start_standin(standin)
        stack.push_async_callback(engine.stop)
        target, basis = parse_target(engine.url), Basis.STAND_IN
        note(f"no --url: offering to a stand-in engine at {engine.url}")
    address = await connectable_address(target)
    session = await stack.enter_async_context(
        open_session(target, dict(read.headers), tls_context(target, to), read.secrets)
    )
    found = Found()
    if not to.no_preflight:
        found = await look_at(session, model)
    elif model is None:
        raise UsageError("--no-preflight cannot find out the model", "give --model")
    if found.stand_in:
        basis = Basis.STAND_IN
    counting = session
    if read.engine is not None:
        counting = await stack.enter_async_context(
            open_session(
                read.engine,
                dict(read.headers),
                tls_context(read.engine, to),
                read.secrets,
            )
        )
        found = await look_behind(counting, read.engine, found)
    tls = None
    if target.tls:
        ca_file = None if to.ca_file is None else str(to.ca_file.resolve())
        tls = Tls(server_name=target.host, verify=not to.insecure, ca_file=ca_file)
    server = Server(
        target=target,
        address=address,
        counting=counting,
        headers=read.headers,
        secrets=read.secrets,
        tls=tls,
        found=found,
        basis=basis,
    )
    telemetry = await open_telemetry(
        stack,
        read.watch,
        target,
        host=address[0],
        headers=dict(read.headers),
        context=tls_context(target, to),
        vocabulary=load_vocabulary(),
    )
    return Bench(server=server, telemetry=telemetry, model=model or found.models[0])


def tls_context(target: Target, to: TargetFlags) -> ssl.SSLContext | None:
    """How side questions to an https target verify it; None for plain http."""
    if not target.tls:
        return None
    try:
        context = ssl.create_default_context(
            cafile=None if to.ca_file is None else str(to.ca_file)
        )
    except (ssl.SSLError, OSError) as error:
        raise UsageError(f"--ca-file {to.ca_file}: {error}") from None
    if to.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
