"""One file of vLLM's source: settings it defines, metrics it registers. Pure."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from loadgen.doctor.source.values import Default, Unread, read_default, unread

__all__ = ["SETTINGS", "Choice", "Definition", "Found", "Metric", "scan"]

SETTINGS = ("max_num_seqs", "max_num_queued_reqs", "max_num_queued_tokens")
_METRIC = re.compile(r"vllm:[A-Za-z_][A-Za-z0-9_]*")
_SERVED_AS = "OPENAI_API_SERVER"
_KINDS = ("counter", "gauge", "histogram", "summary", "info")

Kind = Literal["counter", "gauge", "histogram", "summary", "info", "unknown"]


class Definition(NamedTuple):
    """A setting's default where it is defined.

    ``owner`` is the class, or empty for a command line flag. ``required`` tells a
    field without any default.
    """

    setting: str
    owner: str
    default: Default
    path: str
    line: int
    required: bool = False


class Choice(NamedTuple):
    """A value that a method takes for a setting that was not given."""

    setting: str
    owner: str
    function: str
    value: Default
    path: str
    line: int


class Metric(NamedTuple):
    """A metric's name where it is registered.

    ``registered`` is False where the name only stands in a constant or a table:
    something may register it from there, or read it. ``conditional``: only under an
    ``if`` inside the function that registers it.
    """

    name: str
    kind: Kind
    registered: bool
    conditional: bool
    path: str
    line: int


@dataclass(slots=True)
class Found:
    """What one or more files hold."""

    definitions: list[Definition] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.definitions += other.definitions
        self.choices += other.choices
        self.metrics += other.metrics
        self.unreadable += other.unreadable


def scan(path: str, content: bytes) -> Found:
    """Read one file; one that is no Python is listed as unreadable."""
    found = Found()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # theirs, not ours
            module = ast.parse(content)
        reader = _Reader(path, found)
        reader.names = dict(_assigned(module.body))
        reader.visit(module)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Found(unreadable=[path])
    return found


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Names that a body gives a value, as ``x = 1`` or ``x: int = 1``."""
    for statement in body:
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            targets: list[ast.expr] = [statement.target]
            value = statement.value
        elif isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, value


class _Reader(ast.NodeVisitor):
    """Walks a module once; knows the class, the function and the ifs around it."""

    def __init__(self, path: str, found: Found) -> None:
        self.names: Mapping[str, ast.expr] = {}
        self._path = path
        self._found = found
        self._class = ""
        self._function = ""
        self._ifs = 0

    # -- where we are

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer = self._class, self.names
        self._class, self.names = (
            node.name,
            {**self.names, **dict(_assigned(node.body))},
        )
        self._fields(node)
        self.generic_visit(node)
        self._class, self.names = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        outer = self._function, self._ifs
        self._function, self._ifs = node.name, 0
        if node.name == "__init__" and self._class:
            self._parameters(node.args)
        self.generic_visit(node)
        self._function, self._ifs = outer

    def visit_If(self, node: ast.If) -> None:
        self._ifs += 1
        self.generic_visit(node)
        self._ifs -= 1

    # -- settings

    def _fields(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            if not isinstance(statement, ast.AnnAssign | ast.Assign):
                continue
            targets = (
                statement.targets
                if isinstance(statement, ast.Assign)
                else [statement.target]
            )
            for target in targets:
                if isinstance(target, ast.Name) and target.id in SETTINGS:
                    self._define(target.id, statement.value, statement.lineno)

    def _parameters(self, arguments: ast.arguments) -> None:
        plain = [*arguments.posonlyargs, *arguments.args]
        given = plain[len(plain) - len(arguments.defaults) :]
        pairs = [
            *zip(given, arguments.defaults, strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        for argument, default in pairs:
            if argument.arg in SETTINGS and default is not None:
                self._define(argument.arg, default, argument.lineno)

    def _define(self, setting: str, value: ast.expr | None, line: int) -> None:
        required = value is None
        default = None if value is None else read_default(value, self.names)
        self._found.definitions.append(
            Definition(setting, self._class, default, self._path, line, required)
        )

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._chosen(target, node.value)
        self._named(node.value, node.lineno)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._chosen(node.target, node.value)
            self._named(node.value, node.lineno)
        self.generic_visit(node)

    def _chosen(self, target: ast.expr, value: ast.expr) -> None:
        """Take ``self.max_num_seqs = 128`` and ``default_max_num_seqs = {...}``."""
        name = target.attr if isinstance(target, ast.Attribute) else None
        name = target.id if isinstance(target, ast.Name) else name
        setting = (name or "").removeprefix("default_")
        if not self._function or setting not in SETTINGS:
            return
        for one in _values(value):
            taken = unread(one) if isinstance(one, ast.BinOp) else read_default(one, {})
            if type(taken) is int or isinstance(one, ast.BinOp):
                here = self._class, self._function
                self._found.choices.append(
                    Choice(setting, *here, taken, self._path, one.lineno)
                )

    # -- flags and metrics

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        called = node.func.id if isinstance(node.func, ast.Name) else called
        if called == "add_argument":
            self._flag(node)
        for keyword in node.keywords:
            if keyword.arg == "name":
                self._metric(keyword.value, _kind(called), registered=True)
        if node.args and _kind(called) != "unknown":
            self._metric(node.args[0], _kind(called), registered=True)
        self.generic_visit(node)

    def _flag(self, node: ast.Call) -> None:
        flags = [a.value for a in node.args if isinstance(a, ast.Constant)]
        for setting in SETTINGS:
            if f"--{setting.replace('_', '-')}" not in flags:
                continue
            given = [k.value for k in node.keywords if k.arg == "default"]
            unpacked = any(k.arg is None for k in node.keywords)
            default: Default = None
            if given:
                default = read_default(given[0], self.names)
            elif unpacked:
                default = Unread("its dataclass' default")
            self._found.definitions.append(
                Definition(setting, "", default, self._path, node.lineno)
            )

    def _named(self, value: ast.expr, line: int) -> None:
        """Metric names kept in a constant or a table, to be registered by it."""
        for node in _literals(value):
            self._metric(node, "unknown", registered=False)

    def _metric(self, node: ast.expr, kind: Kind, *, registered: bool) -> None:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and _METRIC.fullmatch(node.value)
        ):
            self._found.metrics.append(
                Metric(
                    node.value,
                    kind,
                    registered,
                    self._ifs > 0,
                    self._path,
                    node.lineno,
                )
            )


def _values(node: ast.expr) -> Iterator[ast.expr]:
    """The values of a table by usage, that of ``vllm serve`` alone if it is named."""
    if not isinstance(node, ast.Dict):
        yield node
        return
    served = [
        value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Attribute) and key.attr == _SERVED_AS
    ]
    yield from served or node.values


def _literals(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Constant):
        yield node
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for element in node.elts:
            yield from _literals(element)
    elif isinstance(node, ast.Dict):
        for key in node.keys:
            if key is not None:
                yield from _literals(key)


def _kind(called: str) -> Kind:
    """The kind of metric that a class or a factory of this name makes."""
    lower = called.lower()
    for kind in _KINDS:
        if kind in lower:
            return kind  # type: ignore[return-value]
    return "unknown"
