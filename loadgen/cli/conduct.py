"""Offer one schedule and say what came of it: the flow `burst` and `replay` share."""

from __future__ import annotations

import asyncio
import ssl
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from loadgen.analysis.goodput import Slo, parse_slo
from loadgen.cli.evidence import judge_by
from loadgen.cli.options import (
    EvidenceFlags,
    OfferFlags,
    OutputFlags,
    PlanFlags,
    TargetFlags,
)
from loadgen.cli.planning import make_plan, protocol_of, write_schedule
from loadgen.cli.show import Show
from loadgen.cli.sources import Source
from loadgen.control.ask import open_session
from loadgen.control.judging import Judge
from loadgen.control.limits import Limits, parse_limits
from loadgen.control.preflight import Found, connectable_address, look_at
from loadgen.control.run import Client, OfferedRun, Server
from loadgen.control.secrets import api_key, parse_headers
from loadgen.control.tail import LayerTail
from loadgen.control.target import Target, parse_target
from loadgen.control.telemetry import WhatToWatch, open_telemetry, parse_watch
from loadgen.errors import ExitCode, UsageError
from loadgen.issue.config import Tls
from loadgen.issue.limits import raise_descriptor_limit, read_machine, shortages
from loadgen.model import Basis
from loadgen.standin.launch import start as start_standin
from loadgen.store import RunDir
from loadgen.store.files import io_errors
from loadgen.telemetry.vocabulary import load_vocabulary

__all__ = ["conduct"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Flags read and found usable, before anything is started."""

    slo: Slo
    limits: Limits
    headers: list[tuple[str, str]]
    secrets: list[str]
    watch: WhatToWatch
    target: Target | None
    count_tokens: Callable[[str], int] | None


def conduct(
    source: Source,
    to: TargetFlags,
    how: OfferFlags,
    evidence: EvidenceFlags,
    output: OutputFlags,
) -> int:
    """Offer the source's schedule once and report.

    Returns:
        The exit code; results are saved whatever it is.
    """
    read = _read(source, to, how)
    judge = judge_by(evidence, read.slo, from_now=True)
    show = Show(output, sys.stdout, sys.stderr)
    for note in source.notes:
        show.note(f"note: {note}")
    _check_machine(source, read, how, show)
    if output.dry_run:
        _dry_run(source, show)
        return ExitCode.OK
    return asyncio.run(_conduct(source, read, to, how, judge, output, show))


def _read(source: Source, to: TargetFlags, how: OfferFlags) -> _Read:
    headers = parse_headers(to.header or ())
    key = api_key(to.api_key_env, to.api_key_file)
    secrets = [value for _, value in headers if value]
    protocol = protocol_of(source.api)
    if key is not None:
        headers.append(protocol.auth(key))
        secrets.append(key)
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
    return _Read(
        slo=parse_slo(how.slo),
        limits=parse_limits(
            connect=how.connect_timeout,
            idle=how.idle_timeout,
            total=how.timeout,
            drain=how.drain,
        ),
        headers=headers,
        secrets=secrets,
        watch=parse_watch(to.metrics_url or (), to.series or ()),
        target=None if to.url is None else parse_target(to.url),
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


def _check_machine(source: Source, read: _Read, how: OfferFlags, show: Show) -> None:
    raise_descriptor_limit()
    loopback = read.target is None or read.target.is_loopback
    for lack in shortages(
        source.at_ns,
        read_machine(loopback=loopback),
        total_ns=read.limits.total_ns,
        fresh_connections=how.fresh_connections,
    ):
        words = f"{lack.need:,} {lack.what} needed, {lack.have:,} there: {lack.why}"
        if lack.certain:
            raise UsageError(words, lack.remedy)
        show.note(f"warning: {words}; {lack.remedy}")


def _dry_run(source: Source, show: Show) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.jsonl"
        source.write(path, source.model or "MODEL")
        show.plan(path, model_known=source.model is not None)


async def _conduct(
    source: Source,
    read: _Read,
    to: TargetFlags,
    how: OfferFlags,
    judge: Judge,
    output: OutputFlags,
    show: Show,
) -> int:
    started = datetime.now(UTC)
    async with AsyncExitStack() as stack:
        server = await _server(source, read, to, stack, show)
        model = source.model or server.found.models[0]
        run = RunDir.create(output.out, output.name or source.name, started)
        with io_errors("write", run.schedule_path):
            source.write(run.schedule_path, model)
        offered_run = OfferedRun(
            run=run,
            server=server,
            client=Client(
                limits=read.limits,
                fresh_connections=how.fresh_connections,
                keep_text=how.keep_text,
                stamps=how.stamps,
                count_tokens=read.count_tokens,
            ),
            config={
                "slo": how.slo,
                "asked": source.asked,
                "notes": list(source.notes),
                **_limits_as_typed(how),
            },
            command=_without_secrets(sys.argv[1:]),
            name=output.name or source.name,
            started_utc=started,
            duration_ns=source.duration_ns,
            telemetry=await open_telemetry(
                stack,
                read.watch,
                server.target,
                headers=dict(read.headers),
                context=_tls_context(server.target, to),
                vocabulary=load_vocabulary(),
            ),
        )
        tail = LayerTail(run.shard_path(0), judge.attribute)
        with show.live(offered_run, source.at_ns, tail) as on_tick:
            summary, offered = await offered_run.go(
                judge,
                _warmup(run, how.warmup, model, source.api),
                on_tick,
            )
        show.result(summary, run)
    if offered.interrupts:
        return ExitCode.INTERRUPTED
    return ExitCode.OK if summary.verdict.status == "valid" else ExitCode.INVALID


async def _server(
    source: Source, read: _Read, to: TargetFlags, stack: AsyncExitStack, show: Show
) -> Server:
    """Start the stand-in where no server is named; look at what answers."""
    target, basis = read.target, Basis.MEASURED
    if target is None:
        standin = await start_standin()
        stack.push_async_callback(standin.stop)
        target, basis = parse_target(standin.url), Basis.STAND_IN
        show.note(f"no --url: offering to a stand-in engine at {standin.url}")
    address = await connectable_address(target)
    session = await stack.enter_async_context(
        open_session(target, dict(read.headers), _tls_context(target, to))
    )
    found = Found()
    if not to.no_preflight:
        found = await look_at(session, source.model)
    elif source.model is None:
        raise UsageError("--no-preflight cannot find out the model", "give --model")
    if found.stand_in:
        basis = Basis.STAND_IN
    tls = None
    if target.tls:
        ca_file = None if to.ca_file is None else str(to.ca_file.resolve())
        tls = Tls(server_name=target.host, verify=not to.insecure, ca_file=ca_file)
    return Server(
        target=target,
        address=address,
        session=session,
        headers=read.headers,
        secrets=read.secrets,
        tls=tls,
        found=found,
        basis=basis,
    )


def _tls_context(target: Target, to: TargetFlags) -> ssl.SSLContext | None:
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


def _warmup(run: RunDir, count: int, model: str, api: str) -> Path | None:
    """A schedule of its own: other prompts than the run's, two a second."""
    if count == 0:
        return None
    flags = PlanFlags(
        workload="short-questions",
        arrivals="constant",
        rate="2/s",
        duration=f"{count * 500}ms",
        seed=0x5EED,
        api=api,
    )
    path = run.path / "warmup-schedule.jsonl"
    with path.open("wb") as out:
        write_schedule(make_plan(flags, None), model, out)
    return path


def _limits_as_typed(how: OfferFlags) -> dict[str, str | bool | int]:
    return {
        "warmup": how.warmup,
        "connect_timeout": how.connect_timeout,
        "idle_timeout": how.idle_timeout,
        "timeout": how.timeout,
        "drain": how.drain,
        "fresh_connections": how.fresh_connections,
        "stamps": how.stamps,
    }


def _without_secrets(arguments: list[str]) -> list[str]:
    """The command line with the values of headers blotted out."""
    kept, blot = [], False
    for argument in arguments:
        if blot:
            kept.append(f"{argument.partition(':')[0]}: ***")
            blot = False
        elif argument.startswith("--header="):
            kept.append(f"{argument.partition(':')[0]}: ***")
        else:
            kept.append(argument)
            blot = argument == "--header"
    return ["loadgen", *kept]
