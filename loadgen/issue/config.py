"""What an issuing process is told: one line of JSON on its standard input.

Headers may hold secrets, so this line is never written to a file.
"""

from __future__ import annotations

import msgspec

from loadgen.errors import UsageError
from loadgen.model import TokenSource
from loadgen.units import NS_PER_S

__all__ = ["IssueConfig", "PromptTokens", "Tls", "decode_config", "encode_config"]


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How to speak TLS.

    Attributes:
        server_name: the name to ask for and to check; None: the address itself.
        verify: check the certificate.
        ca_file: PEM of the authorities to trust in place of the system's.
    """

    server_name: str | None = None
    verify: bool = True
    ca_file: str | None = None


class PromptTokens(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt lengths counted before t0: little-endian int32 by seq, -1 unknown."""

    path: str | None = None
    source: TokenSource = TokenSource.UNKNOWN


class IssueConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Everything one issuing process needs.

    Attributes:
        schedule_path: the sealed schedule.
        records_path: where its records are appended.
        progress_path: the shared block of counters; None: none.
        api: a key of ``wire.protocols.PROTOCOLS``.
        stream: whether answers are read as events.
        address: host and port, resolved.
        family: of the address.
        host_header: the Host field.
        path: of the request line.
        tls: None for plain HTTP.
        headers: further request fields in order.
        secrets: strings that must never reach a record, though a server echo them.
        request_id_prefix: what every X-Request-Id begins with.
        stripe: (i, n): requests i, i + n, i + 2n, … are ours.
        cut: the schedule and the prompt lengths hold these alone.
        connect_ns: from start until a request can be sent.
        idle_ns: without a byte in either direction.
        total_ns: from start to end.
        drain_ns: how long requests may go on after the window or a stop.
        reuse_idle_ns: how long an idle connection counts as alive.
        preconnect: connections to open before t0.
        fresh_connections: one connection for each request.
        keep_text: keep the generated text in the record.
        stamps: ``auto`` asks the kernel, ``user`` does not.
        prompt_tokens: counts made before t0.
    """

    schedule_path: str
    records_path: str
    progress_path: str | None = None
    api: str
    stream: bool = True
    address: tuple[str, int]
    family: int
    host_header: str
    path: str
    tls: Tls | None = None
    headers: list[tuple[str, str]] = []
    secrets: list[str] = []
    request_id_prefix: str
    stripe: tuple[int, int] = (0, 1)
    cut: bool = False
    connect_ns: int = 10 * NS_PER_S
    idle_ns: int = 120 * NS_PER_S
    total_ns: int = 600 * NS_PER_S
    drain_ns: int = 600 * NS_PER_S
    reuse_idle_ns: int = 4 * NS_PER_S
    preconnect: int = 0
    fresh_connections: bool = False
    keep_text: bool = False
    stamps: str = "auto"
    prompt_tokens: PromptTokens = PromptTokens()


def encode_config(config: IssueConfig) -> bytes:
    """The line for the process's standard input, line end included."""
    return msgspec.json.encode(config) + b"\n"


def decode_config(line: bytes) -> IssueConfig:
    """Read that line.

    Raises:
        UsageError: not such a line, or values that cannot be.
    """
    try:
        config = msgspec.json.decode(line, type=IssueConfig)
    except msgspec.DecodeError as error:
        raise UsageError(f"the issuing process was told nonsense: {error}") from error
    part, parts = config.stripe
    if not 0 <= part < parts:
        raise UsageError(f"stripe {part} of {parts} does not exist")
    if config.stamps not in ("auto", "user"):
        raise UsageError(f"stamps are auto or user, not {config.stamps!r}")
    if not config.request_id_prefix.isascii():
        raise UsageError("the request id's prefix must be ASCII")
    return config
