"""Option groups as dataclasses, so that verbs share flags and never repeat them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

__all__ = ["takes_groups"]


def takes_groups(
    verb: Callable[..., int],
    *,
    without: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> Callable[..., int]:
    """Let a verb take dataclasses whose fields are its flags.

    Typer sees one flat signature: each parameter annotated with a dataclass is
    replaced by that dataclass' fields; the rest stays as it is.

    Args:
        verb: the function behind the verb.
        without: flags of the groups that this verb has not; they stay as they are.
        defaults: what this verb takes where a flag is not given.
    """
    own = dict(defaults or {})
    hints = get_type_hints(verb, include_extras=True)
    groups: dict[str, type] = {}
    flat: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(verb).parameters.items():
        hint = hints[name]
        if not is_dataclass(hint):
            flat.append(
                parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
            )
            continue
        assert isinstance(hint, type)
        groups[name] = hint
        flat += _flags(hint, without, own)

    def flattened(**values: Any) -> int:
        built = {
            name: group(
                **{
                    field.name: values.pop(field.name)
                    for field in fields(group)
                    if field.name in values and field.name not in without
                }
            )
            for name, group in groups.items()
        }
        return verb(**values, **built)

    flattened.__name__ = verb.__name__
    flattened.__doc__ = verb.__doc__
    flattened.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    flattened.__annotations__ = {p.name: p.annotation for p in flat}
    return flattened


def _flags(
    group: type, without: Collection[str], defaults: Mapping[str, Any]
) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty
            if field.default is MISSING
            else defaults.get(field.name, field.default),
            annotation=hints[field.name],
        )
        for field in fields(group)
        if field.name not in without
    ]
