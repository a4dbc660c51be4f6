"""What to try next, chosen by what happened; each a command that can be pasted."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from loadgen.model import Basis, Layer, Outcome, Resource
from loadgen.report.escape import safe
from loadgen.report.facts import Facts, Made
from loadgen.report.headline import NOT_FULLY_ISSUED, offered, silent_queue
from loadgen.report.numbers import rate

__all__ = ["Step", "steps"]

STEPS_SHOWN = 4
COMMAND_CELLS = 400
REPLAYED_FLAGS = frozenset(
    {"--url", "--slo", "--api-key-env", "--api-key-file", "--ca-file"}
)
REPLAYED_SWITCHES = frozenset({"--insecure", "--no-preflight"})


@dataclass(frozen=True, slots=True)
class Step:
    """Why, and the command."""

    why: str
    command: str


def steps(facts: Facts, made: Made, folder: str | None) -> tuple[Step, ...]:
    """The few commands that follow from this run, the most useful first."""
    found = (
        *_again(facts, made, folder),
        *_reachable(facts, made),
        *_causes(facts),
        *_no_cap(facts),
        *_counters(facts, made),
        *_further(facts, made),
        *_real_server(facts, made),
    )
    return tuple(
        Step(step.why, safe(step.command, COMMAND_CELLS))
        for step in islice(found, STEPS_SHOWN)
    )


def _again(facts: Facts, made: Made, folder: str | None) -> Iterator[Step]:
    if facts.verdict.status != "invalid" or folder is None:
        return
    stopped = any(r.code == NOT_FULLY_ISSUED for r in facts.verdict.reasons)
    when = "to the end" if stopped else "when that is mended"
    command = ["loadgen", "replay", f"{folder.rstrip('/')}/schedule.jsonl"]
    yield Step(
        f"offer the same requests again, byte for byte, {when}",
        shlex.join([*command, *_kept(made.command)]),
    )


def _reachable(facts: Facts, made: Made) -> Iterator[Step]:
    if facts.outcomes.get(Outcome.CONNECT_ERROR) and _url(made):
        yield Step(
            "see whether the server answers at all",
            shlex.join(["curl", "-sS", f"{_url(made)}/v1/models"]),
        )


def _causes(facts: Facts) -> Iterator[Step]:
    """The two commonest causes on the server's side that have a word to explain."""
    topics: Counter[tuple[str, str]] = Counter()
    for row in facts.rejections:
        vague = row.limiting_resource in (Resource.OTHER, Resource.UNKNOWN)
        if row.layer != Layer.CLIENT:
            topic = row.layer if vague else row.limiting_resource
            topics[topic, row.layer] += row.count
    for (topic, layer), count in topics.most_common(2):
        word = safe(topic, 40)
        yield Step(
            f"what {word} means, and which setting moves it ({count:,} lost)"
            if topic != layer
            else f"what the layer {word} means ({count:,} lost)",
            shlex.join(["loadgen", "explain", word]),
        )


def _no_cap(facts: Facts) -> Iterator[Step]:
    if silent_queue(facts):
        yield Step(
            "nobody was refused while the wait grew: what an admission limit would do",
            "loadgen explain queued_requests",
        )


def _counters(facts: Facts, made: Made) -> Iterator[Step]:
    """Only where the run could have been told of the engine's counters."""
    asked = "metrics_url" in made.config and made.config["metrics_url"] is None
    url = _url(made)
    if asked and url and facts.basis == Basis.MEASURED and facts.reconciliation is None:
        yield Step(
            "hold these numbers against the engine's own counters",
            _with_flag(made.command, "--metrics-url", f"{url}/metrics"),
        )


def _further(facts: Facts, made: Made) -> Iterator[Step]:
    all_good = facts.goodput.good == offered(facts) and facts.offered.rate_rps
    if all_good and facts.verdict.status != "invalid" and made.command:
        doubled = rate(2 * (facts.offered.rate_rps or 0)).replace(",", "")
        yield Step(
            "nothing bent: offer twice as much",
            _with_flag(made.command, "--rate", doubled),
        )


def _real_server(facts: Facts, made: Made) -> Iterator[Step]:
    if facts.basis == Basis.STAND_IN and made.command:
        yield Step(
            "the same against a real server",
            _with_flag(made.command, "--url", "http://HOST:PORT"),
        )


def _url(made: Made) -> str | None:
    url = made.target.get("url")
    return url if isinstance(url, str) else None


def _kept(command: Sequence[str]) -> list[str]:
    """Of a typed command, the flags that a replay needs too."""
    kept: list[str] = []
    for index, word in enumerate(command):
        flag, equals, _ = word.partition("=")
        if flag in REPLAYED_SWITCHES or (flag in REPLAYED_FLAGS and equals):
            kept.append(word)
        elif flag in REPLAYED_FLAGS:
            kept += command[index : index + 2]
    return kept


def _with_flag(command: Sequence[str], flag: str, value: str) -> str:
    """The command as it was typed, with one flag set to another value."""
    words = ["loadgen", *command[1:]]
    for index, word in enumerate(words):
        if word.startswith(f"{flag}="):
            return shlex.join([*words[:index], f"{flag}={value}", *words[index + 1 :]])
        if word == flag:
            return shlex.join([*words[:index], flag, value, *words[index + 2 :]])
    return shlex.join([*words, flag, value])
