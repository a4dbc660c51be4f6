"""Answers as servers give them, and what the judging makes of a set of them."""

from __future__ import annotations

import json
from typing import Any

from loadgen.doctor.check import Check
from loadgen.doctor.server.judge import Asked, server_checks
from loadgen.doctor.server.reply import MODELS, NO_SUCH_PATH, Idle, Looked, Reply
from loadgen.telemetry.vocabulary import load_vocabulary
from loadgen.wire.protocols import PROTOCOLS

VOCABULARY = load_vocabulary()
VLLM_PAGE = b"".join(
    b"%s 0\n" % name.encode()
    for name in (
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:num_preemptions_total",
        "vllm:admission_rejections_total",
        'vllm:request_success_total{finished_reason="stop"}',
        'vllm:request_success_total{finished_reason="error"}',
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
    )
)


def reply(
    path: str, body: Any = b"", status: int | None = 200, **headers: str
) -> Reply:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = tuple((k.replace("_", "-"), v) for k, v in headers.items())
    return Reply(path=path, status=status, headers=named, body=raw)


def models(owner: str = "vllm", *names: str) -> dict[str, Any]:
    listed = [{"id": n, "owned_by": owner} for n in names or ("m",)]
    return {"object": "list", "data": listed}


def look(
    *replies: Reply,
    page: Reply | None = None,
    series: tuple[str, ...] = (),
    model: str | None = None,
    api: str = "openai-chat",
    generated: Reply | None = None,
    probe: bool = False,
) -> dict[str, Check]:
    by_path = {one.path: one for one in replies}
    first = by_path.setdefault(MODELS, reply(MODELS, models()))
    looked = Looked(
        first=first,
        replies=by_path,
        metrics=page,
        idle=Idle(answered=True, closed_after_s=5.0),
        generated=generated,
    )
    asked = Asked(
        protocol=PROTOCOLS[api],
        model=model,
        series=series,
        probe=probe or generated is not None,
    )
    checks = server_checks(looked, asked, VOCABULARY)
    assert len({check.id for check in checks}) == len(checks)
    return {check.id.removeprefix("server."): check for check in checks}


FASTAPI_404 = reply(NO_SUCH_PATH, {"detail": "Not Found"}, 404, server="uvicorn")
VLLM = (
    reply(MODELS, models("vllm"), server="uvicorn"),
    reply("/version", {"version": "0.33.0"}, server="uvicorn"),
    reply("/health", server="uvicorn"),
    FASTAPI_404,
)
