"""``loadgen doctor``: look before a run at the server, its source, this machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from loadgen.cli.options import OfferFlags, TargetFlags
from loadgen.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from loadgen.cli.bench import Read
    from loadgen.doctor.server.ask import Generation, Place
    from loadgen.doctor.server.reply import Looked
    from loadgen.doctor.text import Part
    from loadgen.wire.protocols import Protocol

__all__ = ["WITHOUT", "doctor"]

WITHOUT = ("url", "endpoint", "engine_url", "no_preflight", "gpu", "tokenizer")
"""Flags of a run's target that looking has not; ``url`` has a help of its own."""

_LOOK = "What is looked at"


def doctor(
    to: TargetFlags,
    vllm: Annotated[
        Path | None,
        Option(
            help="vLLM's source, read and not run: a folder, a virtual environment, "
            "an sdist or a wheel.",
            rich_help_panel=_LOOK,
        ),
    ] = None,
    url: Annotated[
        str | None,
        Option(help="A live server's root, asked by GET alone.", rich_help_panel=_LOOK),
    ] = None,
    probe: Annotated[
        bool,
        Option(
            "--probe",
            help="Send that server one tiny generation too.",
            rich_help_panel=_LOOK,
        ),
    ] = False,
    api: Annotated[
        str, Option(help="Protocol a run would speak.", rich_help_panel=_LOOK)
    ] = "openai-chat",
    model: Annotated[
        str | None,
        Option(help="Model a run would name.", rich_help_panel=_LOOK),
    ] = None,
    json_: Annotated[bool, Option("--json", help="Print JSON.")] = False,
) -> int:
    """Say what would spoil a run: a missing cap, a lost metric, a weak machine.

    Without --vllm and --url this machine alone is looked at. Ends with 1 when a check
    fails, 4 when the server does not answer.
    """
    from loadgen.cli.show import screen_of
    from loadgen.doctor.check import any_failed, encode
    from loadgen.doctor.text import table_text

    if probe and url is None:
        raise UsageError("--probe needs a server", "name it by --url")
    parts: list[Part] = []
    if vllm is not None:
        parts.append(_source(vllm, to))
    unreached = False
    if url is not None:
        part, unreached = _server(replace(to, url=url), api, model, probe=probe)
        parts.append(part)
    if vllm is None or url is not None:
        parts.append(_machine())
    checks = [check for part in parts for check in part.checks]
    if json_:
        sys.stdout.write(encode(checks).decode())
    else:
        sys.stdout.write(table_text(parts, screen_of(sys.stdout)))
    if unreached:
        return ExitCode.UNREACHABLE
    return ExitCode.GATE_FAILED if any_failed(checks) else ExitCode.OK


def _source(path: Path, to: TargetFlags) -> Part:
    from loadgen.control.telemetry import parse_watch
    from loadgen.doctor.source import look_at_source
    from loadgen.doctor.text import Part
    from loadgen.telemetry.vocabulary import load_vocabulary

    parse_watch((), to.series or (), "off")  # refuses names that are none
    checks = look_at_source(path, load_vocabulary(), to.series or ())
    return Part(f"vLLM's source at {path}", checks)


def _machine() -> Part:
    from loadgen.doctor.machine.facts import read_facts
    from loadgen.doctor.machine.judge import machine_checks
    from loadgen.doctor.text import Part

    facts = read_facts()
    return Part(f"This machine ({facts.system})", machine_checks(facts))


def _server(
    to: TargetFlags, api: str, model: str | None, *, probe: bool
) -> tuple[Part, bool]:
    """The server's part, and whether it could not be reached at all."""
    import asyncio

    from loadgen.cli.bench import read_flags
    from loadgen.cli.planning import protocol_of
    from loadgen.doctor.server.judge import Asked, server_checks
    from loadgen.doctor.text import Part
    from loadgen.telemetry.vocabulary import load_vocabulary

    protocol = protocol_of(api)
    read = read_flags(api, to, OfferFlags())
    assert read.target is not None
    place = _place(to, read)
    if probe:
        _generation(protocol, model or "")  # refuses a dialect that only streams
    looked = asyncio.run(_look(place, protocol, model, probe=probe))
    asked = Asked(
        protocol=protocol,
        model=model,
        series=to.series or (),
        own_metrics=place.metrics_own,
        verified=None if place.context is None else not to.insecure,
        probe=probe,
    )
    checks = server_checks(looked, asked, load_vocabulary())
    part = Part(f"The server at {read.target.url}", checks)
    return part, bool(looked.first.trouble)


async def _look(
    place: Place, protocol: Protocol, model: str | None, *, probe: bool
) -> Looked:
    from loadgen.doctor.server.ask import generate, look

    looked = await look(place)
    name = model or _only_model(looked)
    if not probe or looked.first.trouble or name is None:
        return looked
    generated = await generate(place, _generation(protocol, name))
    return replace(looked, generated=generated)


def _place(to: TargetFlags, read: Read) -> Place:
    from urllib.parse import urlsplit

    from loadgen.cli.bench import tls_context
    from loadgen.control.target import parse_target
    from loadgen.doctor.server.ask import Place
    from loadgen.doctor.server.reply import METRICS
    from loadgen.wire.protocols import PROTOCOLS

    target = read.target
    assert target is not None
    urls = read.watch.metrics_urls or (f"{target.url}{METRICS}",)
    if len(urls) > 1:
        raise UsageError("doctor takes one --metrics-url", "look at one at a time")
    parts = urlsplit(urls[0])
    root = parse_target(f"{parts.scheme}://{parts.netloc}", flag="--metrics-url")
    return Place(
        url=target.url,
        host=target.host,
        port=target.port,
        headers=dict(read.headers),
        context=tls_context(target, to),
        metrics_url=urls[0] if read.watch.metrics else None,
        metrics_own=root == target,
        posted=[protocol.path for protocol in PROTOCOLS.values()],
    )


def _only_model(looked: Looked) -> str | None:
    names = [entry.get("id") for entry in looked.first.listed]
    return names[0] if len(names) == 1 and isinstance(names[0], str) else None


def _generation(protocol: Protocol, model: str) -> Generation:
    from loadgen.doctor.server.ask import Generation
    from loadgen.plan.prompts import Prompt

    encode = protocol.encoder(model, stream=False, extra_body={})
    prompt = Prompt("doctor", None, "Say hello.", max_tokens=1, prompt_tokens=3)
    return Generation(protocol.path, encode(prompt))
