"""``--api auto``: ask the server, then plan for what it speaks."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from loadgen.cli.bench import read_flags, tls_context
from loadgen.cli.options import OfferFlags, PlanFlags, TargetFlags
from loadgen.control.ask import open_session
from loadgen.control.dialect import find_api

__all__ = ["with_api"]

USUAL = "openai-chat"


def with_api(flags: PlanFlags, to: TargetFlags) -> PlanFlags:
    """The flags with ``auto`` replaced by what the server speaks.

    Raises:
        TargetError: the server does not answer or does not tell.
    """
    if flags.api != "auto":
        return flags
    if to.url is None:
        return replace(flags, api=USUAL)
    return replace(flags, api=asyncio.run(_find(to)))


async def _find(to: TargetFlags) -> str:
    read = read_flags(USUAL, to, OfferFlags())
    assert read.target is not None
    context = tls_context(read.target, to)
    async with open_session(
        read.target, dict(read.headers), context, read.secrets
    ) as session:
        return await find_api(session)
