"""The dialects: what to send for a prompt, and what each event of an answer says.

Pure functions of bytes; a new engine is one file here and one line in
``PROTOCOLS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from typing import Protocol as _Protocol

from loadgen.wire.framing import Event
from loadgen.wire.protocols.anthropic import AnthropicMessages
from loadgen.wire.protocols.delta import Delta, Framing, Output, Usage
from loadgen.wire.protocols.llamacpp import LlamaCppCompletion
from loadgen.wire.protocols.ollama import OllamaChat
from loadgen.wire.protocols.openai import OpenAiChat, OpenAiCompletions
from loadgen.wire.protocols.responses import OpenAiResponses
from loadgen.wire.protocols.sglang import SglangGenerate
from loadgen.wire.protocols.tgi import TgiGenerateStream

if TYPE_CHECKING:
    from loadgen.wire.protocols.encoding import Encoder

__all__ = ["PROTOCOLS", "Delta", "Event", "Framing", "Output", "Protocol", "Usage"]


class Protocol(_Protocol):
    """One engine's dialect.

    Attributes:
        name: as given to ``--api``.
        path: where its requests go, below the server's root.
        framing: how its stream is cut into events.
        cumulative: each event repeats the text so far.
        done_ends: its end mark means a whole answer; OpenAI's ``[DONE]`` does not.
        headers: fields every request of it needs, beside content-type.
    """

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def framing(self) -> Framing: ...
    @property
    def cumulative(self) -> bool: ...
    @property
    def done_ends(self) -> bool: ...
    @property
    def headers(self) -> tuple[tuple[str, str], ...]: ...

    def auth(self, key: str) -> tuple[str, str]:
        """The header that carries an API key."""
        ...

    def encoder(
        self, model: str, *, stream: bool, extra_body: Mapping[str, Any]
    ) -> Encoder:
        """What makes a request body of a prompt.

        Raises:
            UsageError: ``extra_body`` sets a field that the schedule sets, or
                the dialect cannot do what is asked.
        """
        ...

    def decode(self, event: Event) -> Delta:
        """What one event of a stream says. Never raises."""
        ...

    def decode_whole(self, body: bytes) -> Delta:
        """What a whole, not streamed answer says. Never raises."""
        ...


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        OpenAiChat(),
        OpenAiCompletions(),
        OpenAiResponses(),
        AnthropicMessages(),
        OllamaChat(),
        SglangGenerate(),
        LlamaCppCompletion(),
        TgiGenerateStream(),
    )
}
