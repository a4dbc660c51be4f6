"""Prompts that are given: a user's own file, or the lengths of a trace."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Annotated, Any

import msgspec

from loadgen.errors import UsageError
from loadgen.plan.draws import Ints
from loadgen.plan.groups import MAX_TOKENS, Name
from loadgen.plan.pointers import refuse_pointer
from loadgen.plan.prompts import Prompt, Writer, estimate_tokens

__all__ = ["PromptFile", "TracePrompts", "parse_prompts"]

_CHUNK = 4096
MAX_LINE_CHARS = 16 << 20


class PromptFile(msgspec.Struct, frozen=True, kw_only=True):
    """A user's own prompts, offered in the order of the file, again when it ends."""

    name: str
    lines: tuple[Prompt, ...]

    @property
    def group_names(self) -> list[str]:
        return list(dict.fromkeys(prompt.group for prompt in self.lines))

    def prompts(self, count: int, seed: int) -> Iterator[Prompt]:
        """The prompts of ``count`` requests; the seed changes nothing here."""
        return islice(cycle(self.lines), count)

    def with_max_tokens(self, max_tokens: int) -> PromptFile:
        """The same prompts with one output limit for all.

        Raises:
            UsageError: the limit is no positive number.
        """
        if max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1, not {max_tokens}")
        lines = tuple(line._replace(max_tokens=max_tokens) for line in self.lines)
        return PromptFile(name=self.name, lines=lines)


class TracePrompts(msgspec.Struct, frozen=True, kw_only=True):
    """Generated prompts of a trace's lengths, one a row.

    ``prompt_tokens`` and ``output_tokens`` are a trace's columns, -1 where it tells
    nothing; ``max_tokens`` stands in for an output length not told, None leaves it
    to the server.
    """

    name: str
    prompt_tokens: Ints
    output_tokens: Ints
    max_tokens: int | None = None

    @property
    def group_names(self) -> list[str]:
        return ["trace"]

    def prompts(self, count: int, seed: int) -> Iterator[Prompt]:
        """The prompts of the first ``count`` rows.

        Raises:
            UsageError: a row that tells no prompt length above 0.
        """
        writer = Writer(seed)
        for start in range(0, count, _CHUNK):
            stop = min(count, start + _CHUNK)
            openings = writer.openings(start, stop - start)
            lengths = self.prompt_tokens[start:stop].tolist()
            outputs = self.output_tokens[start:stop].tolist()
            rows = zip(openings, lengths, outputs, strict=True)
            for index, (opening, tokens, output) in enumerate(rows, start):
                if tokens < 1:
                    raise UsageError(
                        f"row {index + 1} of the trace has no prompt length"
                    )
                text = writer.of_length(index, opening, tokens)
                limit = output if output > 0 else self.max_tokens
                yield Prompt("trace", None, text, limit, tokens)


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    prompt: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    messages: msgspec.Raw = msgspec.Raw()
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)] | None = None
    group: Name = "prompts"
    tenant: Name | None = None


class _Message(msgspec.Struct):
    role: str
    content: Any = None


_line = msgspec.json.Decoder(_Line)
_messages = msgspec.json.Decoder(Annotated[list[_Message], msgspec.Meta(min_length=1)])


def parse_prompts(text: str, name: str) -> PromptFile:
    """Read a user's prompts from the text of a JSON-lines file.

    A line is ``{"prompt": …}`` or ``{"messages": […]}``, with ``max_tokens``,
    ``group`` and ``tenant`` if wanted. Lengths are estimates.

    Args:
        text: the file's text.
        name: what results call the workload.

    Raises:
        UsageError: naming the physical line and the cause.
    """
    refuse_pointer(text[:400].encode())
    prompts = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.strip():
            continue
        if len(line) > MAX_LINE_CHARS:
            raise UsageError(f"{name}: line {number} is longer than any prompt")
        try:
            prompts.append(_prompt(_line.decode(line)))
        except msgspec.ValidationError as error:
            raise UsageError(f"{name}: line {number}: {error}") from None
        except msgspec.DecodeError as error:
            raise UsageError(f"{name}: line {number}: invalid JSON ({error})") from None
    if not prompts:
        raise UsageError(f"{name}: line 1: there is no prompt in it")
    return PromptFile(name=name, lines=tuple(prompts))


def _prompt(line: _Line) -> Prompt:
    raw = bytes(line.messages) or None
    if (line.prompt is None) == (raw is None):
        raise msgspec.ValidationError("give either prompt or messages")
    if raw is None:
        text = line.prompt or ""
        estimate = estimate_tokens(text)
    else:
        text = ""
        estimate = sum(_content_tokens(part.content) for part in _messages.decode(raw))
    return Prompt(line.group, line.tenant, text, line.max_tokens, estimate, raw)


def _content_tokens(content: Any) -> int:
    """Estimated tokens of a message's text; parts that are no text count nothing."""
    if isinstance(content, str):
        return estimate_tokens(content)
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return sum(estimate_tokens(text) for text in texts if isinstance(text, str))
