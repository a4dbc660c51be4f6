"""The JSON of answers, key for key as vLLM 0.33 sends it.

What an engine would fill and the stand-in has not stays null. The fingerprint and
the owner say what this is.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

import msgspec

from loadgen import __version__
from loadgen.standin.errors import ApiError

__all__ = ["DONE", "Chat", "Completion", "Head", "Shape", "models", "sse", "tokenized"]

DONE = b"data: [DONE]\n\n"
FINGERPRINT = f"loadgen-stand-in-{__version__}"
Json = dict[str, Any]


class Head(msgspec.Struct, frozen=True):
    """What stays the same through one answer; ``created_s`` is Unix time."""

    request_id: str
    model: str
    created_s: int
    prompt_tokens: int
    finish_reason: str
    include_usage: bool
    continuous_usage: bool


class Shape(Protocol):
    """One endpoint's way to put an answer; tokens are counted from 1."""

    def opening(self, head: Head) -> Json | None:
        """The event before the first token's, None where there is none."""

    def token(self, head: Head, text: str, count: int, *, last: bool) -> Json: ...

    def usage(self, head: Head, count: int) -> Json: ...

    def whole(self, head: Head, text: str, count: int) -> Json: ...

    def stream_error(self, error: ApiError) -> bytes: ...


def sse(content: Json) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(content) + b"\n\n"


class Chat:
    """/v1/chat/completions."""

    def opening(self, head: Head) -> Json | None:
        delta = {"role": "assistant", "content": ""}
        return {
            **_chat_chunk(head, _choice(delta=delta)),
            **_running_usage(head, 0),
            "prompt_token_ids": None,
            "prompt_text": None,
        }

    def token(self, head: Head, text: str, count: int, *, last: bool) -> Json:
        choice = _choice(delta={"content": text})
        if last:
            choice |= {"finish_reason": head.finish_reason, "stop_reason": None}
        choice["token_ids"] = None
        if last:
            choice["weight_versions"] = None
        return {
            **_chat_chunk(head, choice),
            **_running_usage(head, count),
            **_last_fingerprint(head, last=last),
            "kv_transfer_params": None,
        }

    def usage(self, head: Head, count: int) -> Json:
        return {
            **_chat_chunk(head),
            "usage": _usage(head, count),
            "system_fingerprint": FINGERPRINT,
        }

    def whole(self, head: Head, text: str, count: int) -> Json:
        message = {
            "role": "assistant",
            "content": text,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
            "reasoning": None,
        }
        choice = {
            **_choice(message=message),
            "finish_reason": head.finish_reason,
            "stop_reason": None,
            "token_ids": None,
            "routed_experts": None,
            "weight_versions": None,
        }
        return {
            **_named(head, "chatcmpl", "chat.completion", choice),
            **_whole_tail(head, count),
            "prompt_logprobs": None,
            "prompt_token_ids": None,
            "prompt_text": None,
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    def stream_error(self, error: ApiError) -> bytes:
        return sse(error.content)


class Completion:
    """/v1/completions."""

    def opening(self, head: Head) -> Json | None:
        return None

    def token(self, head: Head, text: str, count: int, *, last: bool) -> Json:
        choice = {
            **_choice(text=text),
            "finish_reason": head.finish_reason if last else None,
            "stop_reason": None,
            "prompt_token_ids": None,
            "token_ids": None,
            "weight_versions": None,
        }
        return {
            **_named(head, "cmpl", "text_completion", choice),
            **_running_usage(head, count),
            **_last_fingerprint(head, last=last),
            "kv_transfer_params": None,
        }

    def usage(self, head: Head, count: int) -> Json:
        return {
            **_named(head, "cmpl", "text_completion"),
            "usage": _usage(head, count),
            "system_fingerprint": FINGERPRINT,
        }

    def whole(self, head: Head, text: str, count: int) -> Json:
        choice = {
            **_choice(text=text),
            "finish_reason": head.finish_reason,
            "stop_reason": None,
            "prompt_logprobs": None,
            "prompt_token_ids": None,
            "token_ids": None,
            "weight_versions": None,
        }
        return {
            **_named(head, "cmpl", "text_completion", choice),
            **_whole_tail(head, count),
            "kv_transfer_params": None,
        }

    def stream_error(self, error: ApiError) -> bytes:
        # This endpoint of vLLM spaces the separators of its errors.
        return f"data: {json.dumps(error.content)}\n\n".encode()


def models(model: str, max_model_len: int, created_s: int) -> Json:
    """GET /v1/models."""
    served = {
        "id": model,
        "object": "model",
        "created": created_s,
        "owned_by": "loadgen-stand-in",
        "root": model,
        "parent": None,
        "max_model_len": max_model_len,
        "permission": [],
    }
    return {"object": "list", "data": [served]}


def tokenized(ids: list[int], max_model_len: int, strings: list[str] | None) -> Json:
    """POST /tokenize."""
    return {
        "count": len(ids),
        "max_model_len": max_model_len,
        "tokens": ids,
        "token_strs": strings,
    }


def _choice(**content: Any) -> Json:
    return {"index": 0, **content, "logprobs": None, "finish_reason": None}


def _named(head: Head, prefix: str, kind: str, *choices: Json) -> Json:
    return {
        "id": f"{prefix}-{head.request_id}",
        "object": kind,
        "created": head.created_s,
        "model": head.model,
        "choices": choices,
    }


def _chat_chunk(head: Head, *choices: Json) -> Json:
    return _named(head, "chatcmpl", "chat.completion.chunk", *choices)


def _usage(head: Head, count: int) -> Json:
    return {
        "prompt_tokens": head.prompt_tokens,
        "total_tokens": head.prompt_tokens + count,
        "completion_tokens": count,
    }


def _running_usage(head: Head, count: int) -> Json:
    if not head.continuous_usage:
        return {}
    return {"usage": {**_usage(head, count), "completion_tokens_details": None}}


def _last_fingerprint(head: Head, *, last: bool) -> Json:
    # The usage event carries it where there is one.
    return (
        {"system_fingerprint": FINGERPRINT} if last and not head.include_usage else {}
    )


def _whole_tail(head: Head, count: int) -> Json:
    return {
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": {
            **_usage(head, count),
            "prompt_tokens_details": None,
            "completion_tokens_details": None,
        },
    }
