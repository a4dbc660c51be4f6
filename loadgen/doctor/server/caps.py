"""How engines bound their queue, and what they do when it is full. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from loadgen.doctor.check import Check, Status
from loadgen.doctor.server.engine import STAND_IN, EngineSeen
from loadgen.doctor.server.reply import SERVER_INFO, Reply
from loadgen.telemetry.series import version_of

__all__ = ["CAPS", "Cap", "caps_check"]

CAPS_SINCE = "0.33"
MAX_DEPTH = 4


class Cap(NamedTuple):
    """One engine's bound.

    Attributes:
        setting: what sets it; empty where there is none.
        default: what holds where nobody set it.
        full: what happens when it is reached, or where there is none.
        do: what to do about it.
    """

    setting: str
    default: str
    full: str
    do: str


CAPS: dict[str, Cap] = {
    "vllm": Cap(
        "--max-num-queued-reqs and --max-num-queued-tokens",
        "None: no cap",
        "when full: 503 without Retry-After, or the same error inside a stream that "
        "began with 200; without a cap every request is accepted and waits",
        "start it with --max-num-queued-reqs, or judge by goodput",
    ),
    "sglang": Cap(
        "--max-queued-requests",
        "None: no cap",
        "counts waiting requests only; when full: 503 without streaming, for a stream "
        "always 200 with the error inside; nothing counts these refusals",
        "start it with --max-queued-requests, or judge by goodput",
    ),
    "llamacpp": Cap(
        "",
        "none: it never refuses",
        "the status line is held back until a slot is free, so a wait has no status; "
        "503 comes only while the model loads",
        "limit in front of it; set --timeout to what a user would wait",
    ),
    "ollama": Cap(
        "OLLAMA_MAX_QUEUE",
        "512",
        "counts only while a model has to be loaded, then 503 'maximum pending "
        "requests exceeded'; with the model loaded all wait for OLLAMA_NUM_PARALLEL "
        "places",
        "limit in front of it; warm the model up before a run",
    ),
    "tgi": Cap(
        "--max-concurrent-requests",
        "128",
        "counts all requests in the server; when full: 429 with error_type overloaded",
        "compare it with the load you mean to offer",
    ),
    "triton": Cap(
        "max_queue_size of the model's queue policy",
        "0: no cap",
        "when full: the request is rejected at once",
        "set max_queue_size, or judge by goodput",
    ),
    "trtllm": Cap(
        "",
        "none known",
        "requests wait; --max_batch_size bounds what runs",
        "limit in front of it, or judge by goodput",
    ),
}
CAPS[STAND_IN] = CAPS["vllm"]


def caps_check(engine: EngineSeen | None, replies: Mapping[str, Reply]) -> Check:
    """What bounds the queue of this server, as far as it shows."""
    cap = None if engine is None else CAPS.get(engine.name)
    if engine is None or cap is None:
        return _check(
            Status.UNKNOWN,
            "not known for this server",
            "whether it refuses or lets wait, only a run shows",
            "loadgen explain queued_requests tells of the known engines",
        )
    status, seen = _visible(engine, cap, replies)
    do = cap.do if status is Status.WARN else None
    if status is Status.UNKNOWN:
        do = f"ask who started it for {cap.setting}"
    return _check(status, seen, cap.full, do)


def _visible(
    engine: EngineSeen, cap: Cap, replies: Mapping[str, Reply]
) -> tuple[Status, str]:
    info = {}
    for path in (SERVER_INFO, "/get_server_info", "/info", "/props"):
        reply = replies.get(path)
        if reply is not None and reply.ok:
            info[path] = reply.object()
    if engine.name == "vllm":
        return _vllm(engine.version, info.get(SERVER_INFO, {}), cap)
    if engine.name == "sglang":
        told = info.get(SERVER_INFO) or info.get("/get_server_info") or {}
        return _told(told, "max_queued_requests", ("max_running_requests",), cap)
    if engine.name == "tgi":
        return _told(info.get("/info", {}), "max_concurrent_requests", (), cap)
    if engine.name == "llamacpp":
        slots = _number(info.get("/props", {}).get("total_slots"))
        beside = "" if slots is None else f"; {slots} slots (total_slots)"
        return Status.WARN, cap.default + beside
    if not cap.setting:
        return Status.WARN, cap.default
    return Status.UNKNOWN, f"{cap.setting} (default {cap.default}), not shown over HTTP"


def _vllm(version: str | None, info: Mapping[str, Any], cap: Cap) -> tuple[Status, str]:
    if version and version_of(version) < version_of(CAPS_SINCE):
        return Status.WARN, f"none: {version} has no such setting ({CAPS_SINCE} has)"
    config = _scheduler_config(info)
    if config is None:
        return (
            Status.UNKNOWN,
            f"{cap.setting} (default {cap.default}), not shown over HTTP",
        )
    caps = ("max_num_queued_reqs", "max_num_queued_tokens")
    told = [f"{name}={config.get(name)}" for name in ("max_num_seqs", *caps)]
    none = all(config.get(name) is None for name in caps)
    return Status.WARN if none else Status.OK, ", ".join(told)


def _scheduler_config(holder: Any, depth: int = 0) -> Mapping[str, Any] | None:
    """The member ``scheduler_config`` of nested objects."""
    if not isinstance(holder, dict) or depth > MAX_DEPTH:
        return None
    found = holder.get("scheduler_config")
    if isinstance(found, dict):
        return found
    inner = (_scheduler_config(value, depth + 1) for value in holder.values())
    return next((one for one in inner if one is not None), None)


def _told(
    info: Mapping[str, Any], name: str, beside: tuple[str, ...], cap: Cap
) -> tuple[Status, str]:
    if name not in info:
        return (
            Status.UNKNOWN,
            f"{cap.setting} (default {cap.default}), not shown over HTTP",
        )
    words = [f"{one}={info[one]}" for one in (name, *beside) if one in info]
    status = Status.WARN if info[name] is None else Status.OK
    return status, ", ".join(words)


def _number(value: object) -> int | None:
    return value if type(value) is int else None


def _check(status: Status, found: str, meaning: str, do: str | None) -> Check:
    return Check(
        id="server.caps",
        name="queue cap",
        status=status,
        found=found,
        meaning=meaning,
        do=do,
    )
