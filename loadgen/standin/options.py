"""Everything the stand-in can be told, and its flags."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from loadgen.errors import UsageError
from loadgen.sim.engine import EngineSpec
from loadgen.units import NS_PER_MS, NS_PER_US, parse_duration_ns, parse_rate_rps

__all__ = ["Faults", "StandinOptions", "parse", "to_argv"]


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong on purpose; None is "never".

    The ``*_after`` ones count the tokens of an answer that still get out.
    """

    refuse_every: int | None = None
    rate_limit_rps: float | None = None
    loading_ns: int | None = None
    delay_headers_ns: int | None = None
    cut_after: int | None = None
    reset_after: int | None = None
    stall_after: int | None = None
    error_after: int | None = None

    def __post_init__(self) -> None:
        if self.refuse_every is not None and self.refuse_every < 1:
            raise UsageError("refuse-every must be at least 1", "1 refuses everything")
        for name in ("cut_after", "reset_after", "stall_after", "error_after"):
            tokens = getattr(self, name)
            if tokens is not None and tokens < 0:
                raise UsageError(f"{name.replace('_', '-')} must not be negative")


class StandinOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One stand-in.

    ``front_ns + front_token_ns · prompt tokens`` passes between the two admission
    checks: it stands for rendering and tokenising. ``speed`` divides it and every
    step's duration. The default caps are what the sizing rules give for this
    engine: its slots and twice as many waiting, and two seconds of prefill at the
    3,500 tokens/s it does beside decoding.
    """

    host: str = "127.0.0.1"
    port: int = 0
    model: str = "stand-in"
    engine: EngineSpec = EngineSpec(max_num_queued_reqs=12, max_num_queued_tokens=7000)
    front_ns: int = 15 * NS_PER_MS
    front_token_ns: int = 50 * NS_PER_US
    speed: float = 1.0
    faults: Faults = Faults()
    parent_stdin: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise UsageError(f"{self.port} is not a port", "0 takes a free one")
        if not 0 < self.speed <= 1e6:
            raise UsageError("speed must be above 0", "1 is real time")


class _Kind(NamedTuple):
    """How a value is read from a flag and written as one."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]
    metavar: str


def _read_cap(text: str) -> int | None:
    return None if text == "none" else int(text)


def _read_duration_ns(text: str) -> int:
    return parse_duration_ns(text, allow_zero=True)


_TEXT = _Kind(str, str, "TEXT")
_COUNT = _Kind(int, str, "N")
_CAP = _Kind(_read_cap, lambda cap: "none" if cap is None else str(cap), "N|none")
_NUMBER = _Kind(float, repr, "X")
_DURATION = _Kind(_read_duration_ns, lambda ns: f"{round(ns)}ns", "TIME")
_RATE = _Kind(parse_rate_rps, lambda rps: f"{rps!r}/s", "N/s")


class _Flag(NamedTuple):
    """One flag and the field it sets; ``path`` leads there from the options."""

    name: str
    path: tuple[str, ...]
    kind: _Kind
    help: str


_FLAGS = (
    _Flag("host", ("host",), _TEXT, "address to listen on"),
    _Flag("port", ("port",), _COUNT, "port to listen on; 0 takes a free one"),
    _Flag("model", ("model",), _TEXT, "name of the model served"),
    _Flag("max-num-seqs", ("engine", "max_num_seqs"), _COUNT, "slots"),
    _Flag(
        "max-num-batched-tokens",
        ("engine", "max_num_batched_tokens"),
        _COUNT,
        "tokens computed in one step",
    ),
    _Flag(
        "max-model-len",
        ("engine", "max_model_len"),
        _COUNT,
        "longest prompt and answer together, in tokens",
    ),
    _Flag("block-size", ("engine", "block_tokens"), _COUNT, "tokens in a KV block"),
    _Flag("kv-blocks", ("engine", "kv_blocks"), _COUNT, "KV blocks in the pool"),
    _Flag(
        "max-num-queued-reqs",
        ("engine", "max_num_queued_reqs"),
        _CAP,
        "refuse beyond so many unfinished requests, running ones included",
    ),
    _Flag(
        "max-num-queued-tokens",
        ("engine", "max_num_queued_tokens"),
        _CAP,
        "refuse while so many prompt tokens wait for their first output",
    ),
    _Flag(
        "step-base",
        ("engine", "cost", "base_ns"),
        _DURATION,
        "what every step costs",
    ),
    _Flag(
        "prefill-token",
        ("engine", "cost", "prefill_token_ns"),
        _DURATION,
        "added for each prompt token computed",
    ),
    _Flag(
        "decode-seq",
        ("engine", "cost", "decode_seq_ns"),
        _DURATION,
        "added for each decoding sequence",
    ),
    _Flag(
        "kv-token",
        ("engine", "cost", "kv_token_ns"),
        _DURATION,
        "added for each token of context read",
    ),
    _Flag("front", ("front_ns",), _DURATION, "between the two admission checks"),
    _Flag("front-token", ("front_token_ns",), _DURATION, "the same, per prompt token"),
    _Flag("speed", ("speed",), _NUMBER, "run so many times as fast"),
    _Flag(
        "refuse-every",
        ("faults", "refuse_every"),
        _COUNT,
        "refuse each Nth request as busy (503)",
    ),
    _Flag(
        "rate-limit",
        ("faults", "rate_limit_rps"),
        _RATE,
        "429 with Retry-After above this rate, as a gateway",
    ),
    _Flag(
        "loading",
        ("faults", "loading_ns"),
        _DURATION,
        "503 'Loading model' for so long after the start",
    ),
    _Flag(
        "delay-headers",
        ("faults", "delay_headers_ns"),
        _DURATION,
        "hold the status line back",
    ),
    _Flag(
        "cut-after",
        ("faults", "cut_after"),
        _COUNT,
        "close the connection after N tokens",
    ),
    _Flag(
        "reset-after",
        ("faults", "reset_after"),
        _COUNT,
        "reset the connection after N tokens",
    ),
    _Flag(
        "stall-after", ("faults", "stall_after"), _COUNT, "fall silent after N tokens"
    ),
    _Flag(
        "error-after",
        ("faults", "error_after"),
        _COUNT,
        "an engine fault after N tokens (500)",
    ),
)


def parse(argv: Sequence[str]) -> StandinOptions:
    """Read the flags; ``--help`` and mistakes end the program as argparse does.

    Raises:
        UsageError: a value that cannot be used.
    """
    parser = argparse.ArgumentParser(prog="python -m loadgen.standin")
    for flag in _FLAGS:
        default = _at(StandinOptions(), flag.path)
        shown = "" if default is None else f" [{flag.kind.write(default)}]"
        parser.add_argument(
            f"--{flag.name}",
            dest=".".join(flag.path),
            type=flag.kind.read,
            metavar=flag.kind.metavar,
            default=argparse.SUPPRESS,
            help=flag.help + shown,
        )
    parser.add_argument(
        "--parent-stdin", action="store_true", help="end when standard input closes"
    )
    given = vars(parser.parse_args(argv))
    tree = msgspec.to_builtins(StandinOptions())
    for path, value in given.items():
        *parents, name = path.split(".")
        branch = tree
        for parent in parents:
            branch = branch[parent]
        branch[name] = value
    return msgspec.convert(tree, StandinOptions)


def to_argv(options: StandinOptions) -> list[str]:
    """The flags that make these options; what is at its default is left out."""
    default = StandinOptions()
    argv = []
    for flag in _FLAGS:
        value = _at(options, flag.path)
        if value != _at(default, flag.path):
            argv += [f"--{flag.name}", flag.kind.write(value)]
    return [*argv, "--parent-stdin"] if options.parent_stdin else argv


def _at(struct: msgspec.Struct, path: tuple[str, ...]) -> Any:
    value: Any = struct
    for name in path:
        value = getattr(value, name)
    return value
