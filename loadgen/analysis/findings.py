"""What is odd about the answers, though it makes no run invalid by itself."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from loadgen.analysis.columns import Mask, RunData
from loadgen.analysis.latency import Gaps, Times
from loadgen.analysis.silence import Silences
from loadgen.analysis.stats import Floats
from loadgen.model import TokenSource
from loadgen.units import format_duration

__all__ = ["Finding", "findings", "tokens_per_event"]

SERVER_COUNTS = (TokenSource.USAGE, TokenSource.CONTINUOUS_USAGE)
_TRUNCATED_BELOW = 0.9  # of the plan, which may itself be an estimate
_MAX_NAMES = 5
_MAX_NAME_CHARS = 80

_ANOMALY_TEXT = {
    "last_token_before_first": "last token stamped before the first; no TPOT",
    "ttft_gt_e2e": "first token stamped after the end; times left out",
    "before_scheduled": "an event stamped before it was due; times left out",
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something noticed ``count`` times, first on the request ``first_seq``.

    ``text`` may hold the server's words: hostile until escaped.
    """

    code: str
    count: int
    text: str
    first_seq: int | None = None


def tokens_per_event(data: RunData) -> float | None:
    """Output tokens a token event over the ok answers whose tokens the server counted.

    None without such answers. Above 1, an ITL is a gap between events, not tokens.
    """
    rows = _counted(data)
    events = int(data.token_count[rows].sum())
    return round(float(data.output_tokens[rows].sum()) / events, 6) if events else None


def findings(
    data: RunData,
    times: Times,
    gaps: Gaps,
    silent: Silences | None,
    *,
    asked_model: str | None,
) -> list[Finding]:
    """All findings, the most frequent first.

    Args:
        data: the run.
        times: of ``times_of``.
        gaps: of ``gaps_of``.
        silent: of ``silences``.
        asked_model: the model the requests named; None when they named none.
    """
    judged = [
        *_anomalies(data, times, gaps),
        *_prompts(data),
        *_answers(data),
        *_models(data, asked_model),
        *_silences(silent),
    ]
    known = {finding.code for finding in judged}
    noted = [
        Finding(
            code=code,
            count=count,
            text="noted while the answers were read",
            first_seq=data.first_noted.get(code),
        )
        for code, count in data.noted.items()
        if code not in known
    ]
    return sorted(judged + noted, key=lambda finding: -finding.count)


def _found(data: RunData, rows: Mask, code: str, text: str) -> Iterator[Finding]:
    count = int(rows.sum())
    if count:
        first = int(data.seq[rows].min())
        yield Finding(code=code, count=count, text=text, first_seq=first)


def _anomalies(data: RunData, times: Times, gaps: Gaps) -> Iterator[Finding]:
    for code, rows in times.anomalies.items():
        yield from _found(data, rows, code, _ANOMALY_TEXT[code])
    backward = np.zeros(data.rows, dtype=np.bool_)
    backward[gaps.row[gaps.ns < 0]] = True
    yield from _found(
        data,
        backward,
        "token_stamps_out_of_order",
        "token stamps that go back; those gaps are left out",
    )


def _prompts(data: RunData) -> Iterator[Finding]:
    actual, planned = data.prompt_tokens, data.planned_prompt_tokens
    delta = actual - planned
    differs = np.nan_to_num(delta) != 0
    yield from _found(
        data,
        differs,
        "prompt_length_mismatch",
        f"prompt tokens differ from the plan by {_median(delta[differs]):+g} in the "
        "median (a chat template, special tokens, another tokenizer)",
    )
    by_server = data.prompt_tokens_source.where(*SERVER_COUNTS)
    yield from _found(
        data,
        by_server & (actual < _TRUNCATED_BELOW * planned),
        "prompt_truncated",
        "the server counted fewer prompt tokens than were sent: cut silently, or "
        "the plan's estimate is off",
    )


def _answers(data: RunData) -> Iterator[Finding]:
    short = data.ok & (data.output_tokens < data.max_tokens)
    at_limit = data.finish_reason.where("length")
    asked, got = _median(data.max_tokens[short]), _median(data.output_tokens[short])
    yield from _found(
        data,
        short & ~at_limit,
        "reply_shorter_than_asked",
        f"the model stopped before max_tokens: {got:g} of {asked:g} in the median",
    )
    yield from _found(
        data,
        short & at_limit,
        "reply_cut_below_max_tokens",
        "ended by a length limit below the max_tokens asked: a server limit",
    )
    silent_tokens = data.output_tokens - data.token_count
    yield from _found(
        data,
        # one token without text is usual: the server counts its end sign
        _counted(data) & (silent_tokens != 0) & (silent_tokens != 1),
        "events_ne_tokens",
        f"token events are not tokens: {tokens_per_event(data) or 0:g} tokens an "
        "event over all; ITL is the gap between events",
    )


def _counted(data: RunData) -> Mask:
    """Ok rows with token events and a count of tokens by the server."""
    by_server = data.output_tokens_source.where(*SERVER_COUNTS)
    counted = np.isfinite(data.output_tokens) & (data.token_count > 0)
    return data.ok & by_server & counted


def _models(data: RunData, asked: str | None) -> Iterator[Finding]:
    if asked is None:
        return
    others = [name for name in data.model.names if name != asked]
    shown = ", ".join(name[:_MAX_NAME_CHARS] for name in others[:_MAX_NAMES])
    if len(others) > _MAX_NAMES:
        shown += ", …"
    yield from _found(
        data,
        data.model.where(*others),
        "model_fallback",
        f"asked for {asked}, answered by {shown}",
    )


def _silences(silent: Silences | None) -> Iterator[Finding]:
    if silent is not None:
        yield Finding(
            code="simultaneous_gap_in_all_streams",
            count=silent.times,
            text="moments in which all open streams fell silent together, for "
            f"{format_duration(silent.longest_ns)} at the longest: the engine paused, "
            "or the client",
        )


def _median(values: Floats) -> float:
    return float(np.median(values)) if values.size else 0.0
