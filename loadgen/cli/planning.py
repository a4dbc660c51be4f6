"""From flags to a sealed schedule: which prompts, when, encoded for which API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec.structs import replace

from loadgen import __version__
from loadgen.cli.options import PlanFlags
from loadgen.control.files import lines_of, text_of
from loadgen.errors import UsageError
from loadgen.plan.arrivals import offsets
from loadgen.plan.draws import Ints
from loadgen.plan.given import PromptFile, TracePrompts, parse_prompts
from loadgen.plan.groups import MAX_TOKENS, Group, span
from loadgen.plan.schedule import Asked, Header, Seal, bind, seal
from loadgen.plan.traceformats import TRACE_FORMATS
from loadgen.plan.traces import Trace, read_trace, rescale
from loadgen.plan.workload import (
    PromptSource,
    Timing,
    Workload,
    builtin_text,
    parse_mix,
    parse_workload,
)
from loadgen.units import NS_PER_S, parse_duration_ns
from loadgen.wire.protocols import PROTOCOLS, Protocol

__all__ = ["Plan", "make_plan", "protocol_of", "write_schedule"]

MAX_WORKLOAD_BYTES = 16 << 20
MAX_PROMPTS_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be offered, decided but for the model's name.

    Attributes:
        source: where prompts come from.
        at_ns: due times from the schedule's start.
        arrivals: what the header says of the process; holds ``duration_ns``.
        asked: rate and duration as asked for.
        seed: of arrivals and prompts.
        notes: what a reader must know of the input.
    """

    source: PromptSource
    at_ns: Ints
    arrivals: dict[str, Any]
    asked: Asked
    seed: int
    protocol: Protocol
    path: str
    stream: bool
    extra_body: Mapping[str, Any]
    notes: tuple[str, ...]


def protocol_of(api: str) -> Protocol:
    """The dialect of that name.

    Raises:
        UsageError: there is none.
    """
    if api not in PROTOCOLS:
        raise UsageError(f"no API {api!r}", f"there are {', '.join(PROTOCOLS)}")
    return PROTOCOLS[api]


def make_plan(flags: PlanFlags, endpoint: str | None) -> Plan:
    """Decide what the flags ask for.

    Raises:
        UsageError: naming the flag, file, key or line that cannot be used.
    """
    protocol = protocol_of(flags.api)
    extra_body = _extra_body(flags.extra_body)
    if endpoint is not None and not endpoint.startswith("/"):
        raise UsageError(f"--endpoint {endpoint!r} must begin with /")
    if flags.max_tokens is not None and not 1 <= flags.max_tokens <= MAX_TOKENS:
        raise UsageError(
            f"--max-tokens must be at least 1 and at most {MAX_TOKENS:,}, "
            f"not {flags.max_tokens}"
        )
    source: PromptSource
    if flags.arrivals == "trace" or _is_trace(flags.workload):
        source, at_ns, arrivals, asked, notes = _from_trace(flags)
    else:
        source, at_ns, arrivals, asked = _from_workload(flags)
        notes = _repeats(source, len(at_ns))
    seed = flags.seed if flags.seed is not None else _own_seed(source)
    return Plan(
        source=source,
        at_ns=at_ns,
        arrivals=arrivals,
        asked=asked,
        seed=seed,
        protocol=protocol,
        path=endpoint or protocol.path,
        stream=not flags.no_stream,
        extra_body=extra_body,
        notes=notes,
    )


def write_schedule(plan: Plan, model: str, out: BinaryIO) -> Seal:
    """Encode and seal the plan for one model."""
    header = Header(
        api=plan.protocol.name,
        path=plan.path,
        model=model,
        stream=plan.stream,
        workload=plan.source.name,
        seed=plan.seed,
        arrivals=plan.arrivals,
        asked=plan.asked,
        groups=plan.source.group_names,
        created_by=f"loadgen {__version__}",
    )
    encode = plan.protocol.encoder(
        model, stream=plan.stream, extra_body=plan.extra_body
    )
    prompts = plan.source.prompts(len(plan.at_ns), plan.seed)
    return seal(header, bind(header, plan.at_ns, prompts, encode), out)


def _repeats(source: PromptSource, count: int) -> tuple[str, ...]:
    if not isinstance(source, PromptFile) or count <= len(source.lines):
        return ()
    times = f"{count:,} requests from {len(source.lines):,} prompts"
    return (f"{times}: they repeat, which flatters a prefix cache",)


def _own_seed(source: PromptSource) -> int:
    return getattr(source, "seed", None) or 0


def _from_workload(
    flags: PlanFlags,
) -> tuple[PromptSource, Ints, dict[str, Any], Asked]:
    source, timing = _read_workload(flags.workload)
    if isinstance(source, Workload):
        source = _adjusted(source, flags)
    elif flags.mix or flags.equal or flags.shared_prefix is not None:
        raise UsageError("--mix, --equal and --shared-prefix need a workload of groups")
    if flags.max_tokens is not None:
        source = source.with_max_tokens(flags.max_tokens)
    arrivals = timing.override(
        process=flags.arrivals,
        rate=flags.rate,
        duration=flags.duration,
        burstiness=flags.burstiness,
        on=flags.on,
        off=flags.off,
        end_rate=flags.rate_end,
    ).arrivals()
    seed = flags.seed if flags.seed is not None else _own_seed(source)
    asked = Asked(
        rate_rps=arrivals.mean_rate_rps, duration_s=arrivals.duration_ns / NS_PER_S
    )
    return source, offsets(arrivals, seed), arrivals.describe(), asked


def _adjusted(workload: Workload, flags: PlanFlags) -> Workload:
    if flags.mix is not None:
        workload = workload.with_mix(parse_mix(flags.mix))
    groups = workload.groups
    if flags.equal:
        groups = tuple(replace(group, weight=None) for group in groups)
    if flags.shared_prefix is not None:
        groups = tuple(_prefixed(group, flags.shared_prefix) for group in groups)
    return replace(workload, groups=groups, equal=flags.equal or workload.equal)


def _prefixed(group: Group, tokens: int) -> Group:
    """The group with a shared prefix in front of what its prompts hold anyway."""
    low, high = span(group.prompt_tokens)
    longer = tokens - group.shared_prefix_tokens
    try:
        return replace(
            group,
            shared_prefix_tokens=tokens,
            prompt_tokens=(low + longer, high + longer),
        )
    except ValueError as error:
        raise UsageError(f"--shared-prefix {tokens}: {error}") from None


def _read_workload(named: str) -> tuple[Workload | PromptFile, Timing]:
    path = Path(named)
    if path.suffix == ".toml":
        workload = parse_workload(
            text_of(path, "--workload", MAX_WORKLOAD_BYTES), path.stem
        )
    elif path.suffix == ".jsonl":
        text = text_of(path, "--workload", MAX_PROMPTS_BYTES)
        return parse_prompts(text, path.stem), Timing()
    else:
        workload = parse_workload(builtin_text(named), named)
    return workload, workload.timing


def _is_trace(named: str) -> bool:
    return named.partition(":")[0] in TRACE_FORMATS or named.endswith(".csv")


def _from_trace(
    flags: PlanFlags,
) -> tuple[TracePrompts, Ints, dict[str, Any], Asked, tuple[str, ...]]:
    """``--workload FORMAT:FILE``, a .csv known by its header, or a plain .jsonl."""
    layout, colon, rest = flags.workload.partition(":")
    if not colon or layout not in TRACE_FORMATS:
        rest = flags.workload
        layout = "auto" if rest.endswith(".csv") else "jsonl"
    trace = _read_trace(Path(rest), layout, flags.time_unit)
    at_ns = rescale(trace.at_ns, flags.time_scale, "time-scale")
    duration_ns = int(at_ns[-1]) + 1
    if flags.duration is not None:
        duration_ns = parse_duration_ns(flags.duration)
        at_ns = at_ns[at_ns < duration_ns]
    source = TracePrompts(
        name=Path(rest).stem,
        prompt_tokens=trace.prompt_tokens,
        output_tokens=trace.output_tokens,
        max_tokens=flags.max_tokens,
    )
    arrivals = {
        "process": "trace",
        "format": layout,
        "time_scale": flags.time_scale,
        "duration_ns": duration_ns,
    }
    duration_s = duration_ns / NS_PER_S
    asked = Asked(rate_rps=len(at_ns) / duration_s, duration_s=duration_s)
    return source, at_ns, arrivals, asked, tuple(trace.notes())


def _read_trace(path: Path, layout: str, unit: str | None) -> Trace:
    if unit not in (None, "s", "ms"):
        raise UsageError(f"--time-unit {unit!r} is neither s nor ms")
    try:
        with path.open("rb") as lines:
            return read_trace(lines_of(lines), layout, unit=unit)  # type: ignore[arg-type]
    except OSError as error:
        raise UsageError(f"--workload {path}: {error.strerror}") from None


def _extra_body(text: str | None) -> Mapping[str, Any]:
    if text is None:
        return {}
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UsageError(f"--extra-body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError("--extra-body must be a JSON object")
    return value
