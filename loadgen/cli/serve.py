"""``loadgen serve``: the stand-in engine on its own."""

from __future__ import annotations

import typer

__all__ = ["serve"]


def serve(context: typer.Context) -> int:
    """Run the stand-in engine; `loadgen serve --help` lists its flags."""
    from loadgen.standin.__main__ import main

    return main(context.args)
