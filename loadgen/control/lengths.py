"""Prompt lengths of every planned request, known before t0.

A refused request brings no usage; its length must come from somewhere else and
the source is named: the server's own ``/tokenize`` (vLLM's or llama.cpp's
shape), else a local tokenizer, else the generator's estimate.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from loadgen.control.ask import Session, ask
from loadgen.model import TokenSource

__all__ = ["MAX_PROMPTS", "PromptLengths", "count_locally", "count_on_server"]

MAX_PROMPTS = 5_000
MAX_BYTES = 64 << 20
CONCURRENCY = 8
REQUEST_LIMIT_S = 10.0
BUDGET_S = 60.0
MAX_COUNT = 2**31 - 1  # what a length is kept in


@dataclass(frozen=True, slots=True)
class PromptLengths:
    """One length a planned request, -1 where unknown, and where they come from."""

    tokens: array[int]
    source: TokenSource
    note: str = ""


Count = Callable[[Session, dict[str, Any]], Awaitable[int]]


async def count_on_server(
    session: Session, bodies: Iterable[bytes], model: str
) -> PromptLengths | str:
    """Ask the server for the token count of each body's prompt.

    Args:
        session: rooted at the server, with its headers.
        bodies: request bodies in schedule order; equal ones are asked once.
        model: the model's name, sent along.

    Returns:
        The lengths, or in words why there are none.
    """
    distinct: dict[bytes, list[int]] = {}
    total_bytes = 0
    for seq, body in enumerate(bodies):
        distinct.setdefault(body, []).append(seq)
        total_bytes += len(body)
        if len(distinct) > MAX_PROMPTS or total_bytes > MAX_BYTES:
            return f"more than {MAX_PROMPTS:,} prompts or 64 MiB: not asked"
    if not distinct:
        return "no prompts"
    prompts = {body: _decoded(body) for body in distinct}
    first = next(iter(prompts.values()))
    try:
        async with asyncio.timeout(BUDGET_S):
            count = await _find_dialect(session, first, model)
            if count is None:
                return "the server has no usable /tokenize"
            counts = await _ask_all(session, count, prompts)
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
        return "/tokenize did not answer in time"
    tokens = array("i", [-1]) * sum(len(seqs) for seqs in distinct.values())
    for body, seqs in distinct.items():
        for seq in seqs:
            tokens[seq] = counts[body]
    if -1 in counts.values():
        return "/tokenize failed for some prompts"
    return PromptLengths(tokens, TokenSource.TOKENIZE)


async def _find_dialect(
    session: Session, prompt: dict[str, Any], model: str
) -> Count | None:
    async def vllm(session: Session, body: dict[str, Any]) -> int:
        return await _counted(session, {"model": model} | _prompt_of(body))

    async def nameless(session: Session, body: dict[str, Any]) -> int:
        """An engine behind a gateway may know the model by another name."""
        return await _counted(session, _prompt_of(body))

    async def llama_cpp(session: Session, body: dict[str, Any]) -> int:
        text = body.get("prompt")
        if "messages" in body:
            chat = {"messages": body["messages"]}
            text = (await _post(session, "/apply-template", chat)).get("prompt")
        if not isinstance(text, str):
            return -1
        asked = {"content": text, "add_special": True, "parse_special": True}
        tokens = (await _post(session, "/tokenize", asked)).get("tokens")
        return len(tokens) if isinstance(tokens, list) else -1

    for count in (vllm, nameless, llama_cpp):
        if await count(session, prompt) > 0:
            return count
    return None


def _prompt_of(body: dict[str, Any]) -> dict[str, Any]:
    return {key: body[key] for key in ("messages", "prompt") if key in body}


async def _counted(session: Session, asked: dict[str, Any]) -> int:
    count = (await _post(session, "/tokenize", asked)).get("count")
    return count if type(count) is int and 0 <= count <= MAX_COUNT else -1


async def _ask_all(
    session: Session, count: Count, prompts: dict[bytes, dict[str, Any]]
) -> dict[bytes, int]:
    counts: dict[bytes, int] = {}
    waiting = iter(prompts.items())

    async def worker() -> None:
        for body, prompt in waiting:
            counts[body] = await count(session, prompt)

    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return counts


async def _post(session: Session, path: str, body: dict[str, Any]) -> dict[str, Any]:
    answer = await ask(session, path, body=body, limit_s=REQUEST_LIMIT_S)
    return answer.json_object() if answer.status == 200 else {}


def count_locally(
    bodies: Iterable[bytes], count: Callable[[str], int]
) -> PromptLengths:
    """Count each body's prompt text with a local tokenizer.

    The chat template is not applied, so chat prompts come out a few tokens short.
    """
    tokens = array("i")
    for body in bodies:
        text = _text_of(_decoded(body))
        tokens.append(-1 if text is None else count(text))
    note = "chat template not counted"
    return PromptLengths(tokens, TokenSource.LOCAL_TOKENIZER, note)


def _decoded(body: bytes) -> dict[str, Any]:
    """A body as an object; empty where a sealed file holds something else."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text_of(body: dict[str, Any]) -> str | None:
    """The words of a prompt or of a chat's messages; None where there are none."""
    messages, text = body.get("messages"), body.get("prompt")
    if text is None and isinstance(messages, list):
        contents = (part.get("content") for part in messages if isinstance(part, dict))
        text = "\n".join(words for words in contents if isinstance(words, str))
    return text if isinstance(text, str) else None
