"""The answers we know: which system words a refusal how.

A signature is data (``known/*.toml``; a user's own file has the same form).
Its conditions must all hold, and they are tried in the order layer header,
then body, then status with the body's shape; in each, the user's come first
and the first that holds wins. A status, ``Server`` or ``Content-Type`` alone
proves nothing, so an entry with nothing else is refused.

Fields of a ``[[signature]]``:

``id``, ``system``, ``source``, ``note``: what it is and how it is known.
``layer``, ``resource``, ``accepted`` (no), ``confidence`` (high): the verdict.
``status``: any of these. ``stream``: a 2xx, or not one. ``tokens``: some
output token had come, or none. ``zero_usage``: the server counted no output.
``headers``: name to a regular expression (``""`` is presence); a name may end
in ``*``. ``absent``: names that must not be there.
``text``: pieces that must all occur in message or body. ``regex``: must be
found in either; ``^`` and ``$`` match at lines. Both ignore case.
``type``, ``code``: any of these as the error's. ``keys``: all of these as
JSON keys. ``body``: empty, html, json, text or stream. ``finish``: any of
these as finish_reason.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from importlib import resources

import msgspec

from loadgen.analysis.answer import Facts, Shape
from loadgen.analysis.clues import ID_HEADERS, READ_HEADERS, TELLING_HEADER
from loadgen.errors import UsageError
from loadgen.model import Accepted, Confidence, Layer, Resource
from loadgen.wire.headers import kept_headers

__all__ = ["Signature", "Signatures", "built_in", "load_signatures", "parse_signatures"]

BUILT_IN_FILES = ("engines", "servers", "routers", "gateways", "providers")
MAX_STATUSES = 64
WEAK_HEADERS = frozenset({"server", "content-type"})


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One known answer; the fields are told in this module's docstring."""

    id: str
    system: str
    layer: Layer
    resource: Resource
    source: str
    note: str = ""
    accepted: Accepted = Accepted.NO
    confidence: Confidence = Confidence.HIGH
    status: tuple[int, ...] = ()
    stream: bool | None = None
    tokens: bool | None = None
    zero_usage: bool | None = None
    headers: dict[str, str] = {}
    absent: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    regex: str | None = None
    type: tuple[str, ...] = ()
    code: tuple[int | str, ...] = ()
    keys: tuple[str, ...] = ()
    body: Shape | None = None
    finish: tuple[str, ...] = ()

    @property
    def by_header(self) -> bool:
        """Whether a header that names its layer is among the conditions."""
        return any(name.lower() not in WEAK_HEADERS for name in self.headers)

    @property
    def by_body(self) -> bool:
        """Whether the body's words or keys are among the conditions."""
        return bool(
            self.text or self.regex or self.type or self.code or self.keys
        ) or bool(self.finish)


class _Compiled:
    """A signature with its patterns ready, in lower case throughout."""

    __slots__ = (
        "absent",
        "code",
        "headers",
        "marker",
        "pattern",
        "signature",
        "text",
        "type",
    )

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.text = tuple(piece.lower() for piece in signature.text)
        self.pattern = _pattern(signature.regex)
        self.headers = tuple(
            (name.lower(), _pattern(pattern))
            for name, pattern in signature.headers.items()
        )
        self.marker = next(
            (name for name, _ in self.headers if name not in WEAK_HEADERS), ""
        )
        self.absent = tuple(name.lower() for name in signature.absent)
        self.type = frozenset(kind.lower() for kind in signature.type)
        self.code = frozenset(
            code.lower() if isinstance(code, str) else code for code in signature.code
        )

    def allows(self, status: int | None) -> bool:
        """Whether an answer with this status can match at all."""
        it = self.signature
        in_stream = status is not None and 200 <= status < 300
        return (not it.status or status in it.status) and it.stream in (None, in_stream)

    def matches(self, facts: Facts) -> bool:
        return (
            self._by_error(facts)
            and self._by_state(facts)
            and (self.pattern is None or self.pattern.search(facts.text) is not None)
            and self._by_text(facts)
            and self._by_headers(facts)
        )

    def _by_text(self, facts: Facts) -> bool:
        text = facts.text
        for piece in self.text:  # noqa: SIM110 (a generator costs more than the work)
            if piece not in text:
                return False
        return True

    def _by_headers(self, facts: Facts) -> bool:
        if not self.headers and not self.absent:
            return True
        return all(
            _present(facts, name, want) for name, want in self.headers
        ) and not any(_present(facts, name, None) for name in self.absent)

    def _by_state(self, facts: Facts) -> bool:
        it = self.signature
        return (
            self.allows(facts.status)
            and (it.tokens is None or facts.tokens is it.tokens)
            and (it.zero_usage is None or facts.zero_usage is it.zero_usage)
            and (not it.finish or facts.finish in it.finish)
        )

    def _by_error(self, facts: Facts) -> bool:
        it = self.signature
        return (
            (not self.type or facts.type in self.type)
            and (not self.code or facts.code in self.code)
            and (it.body is None or facts.shape == it.body)
            and facts.keys.issuperset(it.keys)
        )


def _pattern(regex: str | None) -> re.Pattern[str] | None:
    if not regex:
        return None
    # Facts are in lower case; ignoring case costs a search its fast start.
    ignore = 0 if regex == regex.lower() else re.IGNORECASE
    return re.compile(regex, re.MULTILINE | ignore)


def _present(facts: Facts, name: str, want: re.Pattern[str] | None) -> bool:
    if name.endswith("*"):
        prefix = name[:-1]
        return any(
            header.startswith(prefix) and (want is None or want.search(value))
            for header, value in facts.headers.items()
        )
    value = facts.headers.get(name)
    return value is not None and (want is None or want.search(value) is not None)


_Search = Callable[[str], re.Match[str] | None]
_Candidate = tuple[str, _Search | None, _Compiled]


class Signatures:
    """An ordered set of signatures, indexed for the hot path.

    Args:
        signatures: in order of precedence.
    """

    def __init__(self, signatures: Iterable[Signature]) -> None:
        self.entries = tuple(signatures)
        compiled = [_Compiled(signature) for signature in self.entries]
        self._by_header: dict[str, list[tuple[int, _Compiled]]] = {}
        for order, it in enumerate(compiled):
            if it.signature.by_header:
                self._by_header.setdefault(it.marker, []).append((order, it))
        rest = [it for it in compiled if not it.signature.by_header]
        self._rest = [it for it in rest if it.signature.by_body] + [
            it for it in rest if not it.signature.by_body
        ]
        self._rest_by_status: dict[int | None, list[_Candidate]] = {}
        self._names, self._prefixes = _header_names(self.entries)

    def headers_of(self, headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Keep of an answer's headers those a signature or rule reads, sorted."""
        kept = []
        for name, value in headers.items():
            lower = name.lower()
            valued = self._names.get(lower)
            if valued is None and lower.startswith(self._prefixes):
                valued = False
            if valued is None and TELLING_HEADER.search(lower):
                valued = True
            if valued is None:
                continue
            if lower in ID_HEADERS:
                value = value[:4]  # its form tells; its value differs every time
            kept.append((lower, value[:256].lower() if valued else ""))
        kept.sort()
        return tuple(kept)

    def match(self, facts: Facts) -> Signature | None:
        """The first signature that holds: by header, by body, by status."""
        for _, compiled in self._marked(facts):
            if compiled.matches(facts):
                return compiled.signature
        text = facts.text
        for piece, search, compiled in self._candidates(facts.status):
            if (
                piece in text
                and (search is None or search(text))
                and compiled.matches(facts)
            ):
                return compiled.signature
        return None

    def _marked(self, facts: Facts) -> list[tuple[int, _Compiled]]:
        """Those whose marking header is there, in order."""
        found: dict[int, _Compiled] = {}
        for name in facts.headers:
            found.update(self._by_header.get(name, ()))
            for prefix in self._prefixes:
                if name.startswith(prefix):
                    found.update(self._by_header.get(f"{prefix}*", ()))
        return sorted(found.items(), key=lambda item: item[0])

    def _candidates(self, status: int | None) -> list[_Candidate]:
        """What can hold for a status, each with what its text must show first."""
        found = self._rest_by_status.get(status)
        if found is None:
            found = [
                (
                    it.text[0] if it.text else "",
                    it.pattern.search if it.pattern and not it.type else None,
                    it,
                )
                for it in self._rest
                if it.allows(status)
            ]
            if len(self._rest_by_status) < MAX_STATUSES:
                self._rest_by_status[status] = found
        return found


def _header_names(
    entries: Iterable[Signature],
) -> tuple[dict[str, bool], tuple[str, ...]]:
    """Exact names with "does its value matter", and the prefixes."""
    exact: dict[str, bool] = {}
    prefixes: set[str] = set()
    wanted = [(name, bool(p)) for it in entries for name, p in it.headers.items()]
    wanted += [(name, False) for it in entries for name in it.absent]
    wanted += READ_HEADERS.items()
    for name, valued in wanted:
        lower = name.lower()
        if lower.endswith("*"):
            prefixes.add(lower[:-1])
        else:
            exact[lower] = exact.get(lower, False) or valued
    return exact, tuple(sorted(prefixes))


def parse_signatures(text: str, *, name: str) -> list[Signature]:
    """Read a signature file's text.

    Args:
        text: TOML with ``[[signature]]`` tables.
        name: the file's name, for messages.

    Raises:
        UsageError: not TOML, or an entry with an unknown key, a bad value, a
            bad regular expression, a header that no record keeps, an id used
            twice, or no condition that can prove a layer. Its id is named.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers without end
        raise UsageError(f"{name} is not TOML: {error}") from None
    unknown = sorted(set(data) - {"signature"})
    tables = data.get("signature", [])
    if unknown or not isinstance(tables, list):
        extra = ", ".join(unknown) or "signature"
        raise UsageError(f"{name}: unknown table {extra}", "use [[signature]]")
    seen: set[str] = set()
    entries = []
    for index, table in enumerate(tables, start=1):
        entry = _entry(table, f"{name}: signature {_label(table, index)}")
        if entry.id in seen:
            raise UsageError(f"{name}: signature {entry.id!r} is there twice")
        seen.add(entry.id)
        entries.append(entry)
    return entries


def _label(table: object, index: int) -> str:
    given = table.get("id") if isinstance(table, Mapping) else None
    return repr(given) if isinstance(given, str) else f"number {index}"


def _entry(table: object, where: str) -> Signature:
    try:
        entry = msgspec.convert(table, Signature)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}") from None
    for pattern in (entry.regex, *entry.headers.values()):
        try:
            _pattern(pattern)
        except re.error as error:
            raise UsageError(
                f"{where}: {pattern!r} is not a regular expression: {error}"
            ) from None
    lost = [name for name in (*entry.headers, *entry.absent) if not _is_recorded(name)]
    if lost:
        raise UsageError(
            f"{where}: the header {lost[0]!r} is not kept in records",
            "kept are the common ones and names that tell what a proxy did: "
            "x-…-error-code, x-…-queue, x-…-upstream and the like",
        )
    if not (entry.by_header or entry.by_body or entry.body):
        raise UsageError(
            f"{where}: a status, Server or Content-Type alone proves no layer",
            "add text, regex, type, code, keys, body or a header of the layer's own",
        )
    return entry


def _is_recorded(name: str) -> bool:
    return bool(kept_headers([(name.removesuffix("*").encode(), b"1")]))


def built_in() -> list[Signature]:
    """The signatures that come with the package, in order of precedence."""
    folder = resources.files("loadgen.analysis") / "known"
    return [
        signature
        for stem in BUILT_IN_FILES
        for signature in parse_signatures(
            (folder / f"{stem}.toml").read_text("utf-8"), name=f"{stem}.toml"
        )
    ]


def load_signatures(user_text: str | None = None, *, name: str = "") -> Signatures:
    """The built-in signatures, with a user's own before them.

    Args:
        user_text: the text of the file of ``--signatures``; None when not given.
        name: that file's name, for messages.

    Raises:
        UsageError: as `parse_signatures`.
    """
    own = [] if user_text is None else parse_signatures(user_text, name=name)
    return Signatures([*own, *built_in()])
