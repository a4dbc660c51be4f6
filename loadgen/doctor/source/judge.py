"""What a vLLM's source says about overload: caps, defaults, signals. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from loadgen.doctor.check import Check, Status
from loadgen.doctor.source.scan import Choice, Definition, Found
from loadgen.doctor.source.signals import signal_checks
from loadgen.doctor.source.tree import Tree
from loadgen.doctor.source.values import Default, Ref, Unread
from loadgen.telemetry.vocabulary import Vocabulary

__all__ = ["CLASS", "resolved", "source_checks"]

CLASS = "SchedulerConfig"
ARGUMENTS = "EngineArgs"
CAPS = ("max_num_queued_reqs", "max_num_queued_tokens")
WAITS = "every request is accepted and waits"

_CAP_MEANING = {
    "max_num_queued_reqs": "counts all unfinished requests, running and waiting",
    "max_num_queued_tokens": "counts prompt tokens that wait for their first output",
}
_CAP_DO = {
    "max_num_queued_reqs": "set it to data-parallel size * max-num-seqs + the queue "
    "you will bear (256 + 32 = 288)",
    "max_num_queued_tokens": "set it to target TTFT * prefill tokens a second under "
    "mixed load (2 s * 10,000/s = 20,000)",
}


def source_checks(
    tree: Tree, found: Found, vocabulary: Vocabulary, asked: Sequence[str] = ()
) -> list[Check]:
    """Every check of a source, in the order they are shown.

    Args:
        tree: where it was read from.
        found: what its files hold.
        vocabulary: the series of vLLM and their old names.
        asked: series that somebody says are read: each must be there.
    """
    checks = [
        _version(tree),
        _max_num_seqs(found),
        *(_cap(name, found) for name in CAPS),
        _admission(found),
        *signal_checks(found.metrics, vocabulary, tree.version, asked),
        _metrics(found),
    ]
    if unread := [*tree.skipped, *found.unreadable]:
        checks.append(_unreadable(unread))
    return checks


def resolved(default: Default, definitions: Sequence[Definition]) -> Default:
    """A default with references to other classes followed, as far as they lead."""
    followed: set[Ref] = set()
    while isinstance(default, Ref):
        if default in followed:
            return Unread(f"{default.owner}.{default.name}")
        followed.add(default)
        there = [
            one
            for one in definitions
            if (one.owner, one.setting) == default and not one.required
        ]
        if not there:
            return Unread(f"{default.owner}.{default.name}")
        default = there[0].default
    return default


def _at(one: Definition | Choice) -> str:
    return f"{one.path}:{one.line}"


def _words(default: Default) -> str:
    if isinstance(default, Unread):
        return default.text
    return str(default)


def _of(found: Found, setting: str, owner: str) -> Definition | None:
    """Where a class defines a setting; None where it does not."""
    return next(
        (
            one
            for one in found.definitions
            if one.setting == setting and one.owner == owner and not one.required
        ),
        None,
    )


def _first(found: Found, setting: str) -> Definition | None:
    """The definition that counts most: the config class, then the arguments."""
    return (
        _of(found, setting, CLASS)
        or _of(found, setting, ARGUMENTS)
        or _of(found, setting, "")
    )


def _how(one: Definition) -> str:
    if one.owner == CLASS:
        return "class default"
    return f"default of {one.owner}" if one.owner else "default of the flag"


def _version(tree: Tree) -> Check:
    return Check(
        id="vllm.version",
        name="version",
        status=Status.UNKNOWN if tree.version is None else Status.OK,
        found=tree.version or "not told by its files",
        meaning=f"{tree.seen:,} Python files, {len(tree.files)} of them of interest; "
        "read, not imported",
    )


def _max_num_seqs(found: Found) -> Check:
    setting = "max_num_seqs"
    one = _first(found, setting)
    if one is None:
        return Check(
            id="vllm.max-num-seqs",
            name="max-num-seqs",
            status=Status.UNKNOWN,
            found="no default found",
            do="see the engine's log at start, or set --max-num-seqs",
        )
    words = _words(resolved(one.default, found.definitions))
    meaning = f"at {_at(one)}"
    choices = [
        choice
        for choice in found.choices
        if choice.setting == setting and choice.owner in (CLASS, ARGUMENTS)
    ]
    arguments = _of(found, setting, ARGUMENTS)
    if arguments is not None and choices:
        own = _words(resolved(arguments.default, found.definitions))
        meaning += (
            f"; vllm serve starts from {ARGUMENTS} ({own}, {_at(arguments)}) and, not "
            f"told, takes {_either(choices)} ({_places(choices)})"
        )
    return Check(
        id="vllm.max-num-seqs",
        name="max-num-seqs",
        status=Status.OK,
        found=f"default {words} ({_how(one)})",
        meaning=meaning,
        do="set --max-num-seqs: what runs then does not depend on the device"
        if choices
        else None,
    )


def _either(choices: Iterable[Choice]) -> str:
    values = list(dict.fromkeys(_words(choice.value) for choice in choices))
    return " or ".join([", ".join(values[:-1]), values[-1]] if values[1:] else values)


def _places(choices: Iterable[Choice]) -> str:
    return ", ".join(dict.fromkeys(f"{c.path} {c.function}" for c in choices))


def _cap(setting: str, found: Found) -> Check:
    flag = setting.replace("_", "-")
    one = _first(found, setting)
    if one is None:
        return Check(
            id=f"vllm.{flag}",
            name=flag,
            status=Status.WARN,
            found="no such setting in this version",
            meaning="the engine cannot refuse by it",
            do="limit in front of it, at a gateway or router, or take a version that "
            "has it (0.33 does)",
        )
    default = resolved(one.default, found.definitions)
    known = not isinstance(default, Unread)
    status = Status.WARN if default is None else Status.OK
    return Check(
        id=f"vllm.{flag}",
        name=flag,
        status=status if known else Status.UNKNOWN,
        found=f"default {_words(default)} ({_how(one)})",
        meaning=f"at {_at(one)}; {_CAP_MEANING[setting]}",
        do=_CAP_DO[setting] if default is None else None,
    )


def _admission(found: Found) -> Check:
    defaults = {
        setting: resolved(one.default, found.definitions)
        for setting in CAPS
        if (one := _first(found, setting)) is not None
    }
    capped = {k: v for k, v in defaults.items() if v is not None}
    if not capped:
        return Check(
            id="vllm.admission",
            name="verdict",
            status=Status.WARN,
            found=WAITS,
            meaning=("both caps are None" if defaults else "this version has no caps")
            + ": overload shows as TTFT alone, never as a refusal",
            do=("set a cap, or " if defaults else "") + "judge it by goodput",
        )
    unread = any(isinstance(value, Unread) for value in capped.values())
    told = ", ".join(f"{k.replace('_', '-')} {_words(v)}" for k, v in capped.items())
    return Check(
        id="vllm.admission",
        name="verdict",
        status=Status.UNKNOWN if unread else Status.OK,
        found=f"refuses above {told}",
        meaning="by default; the command line may say otherwise",
    )


def _metrics(found: Found) -> Check:
    names = {metric.name for metric in found.metrics}
    files = {metric.path for metric in found.metrics}
    always = {m.name for m in found.metrics if m.registered and not m.conditional}
    return Check(
        id="vllm.metrics",
        name="vllm:* metrics",
        status=Status.OK if names else Status.FAIL,
        found=f"{len(names)} names in {len(files)} files",
        meaning=f"{len(always)} are registered without a condition of their own, the "
        "others depend on settings or on what is used",
        do=None if names else "is this vLLM's whole source?",
    )


def _unreadable(paths: Sequence[str]) -> Check:
    shown = ", ".join(paths[:3]) + (" and more" if paths[3:] else "")
    return Check(
        id="vllm.unreadable",
        name="files not read",
        status=Status.WARN,
        found=f"{len(paths)}: {shown}",
        meaning="too long, or no Python of this interpreter's grammar; what they "
        "define is not in the above",
        do="run loadgen on a newer Python",
    )
