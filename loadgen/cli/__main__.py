"""``loadgen``: one verb a file, errors in one line, the exit codes of the README."""

from __future__ import annotations

import sys

import typer

from loadgen.cli.verbs import add_verbs
from loadgen.errors import ExitCode, LoadgenError

__all__ = ["main"]


def build_app() -> typer.Typer:
    """The command line with every verb on it."""
    app = typer.Typer(
        name="loadgen",
        help="Open-loop load tests for LLM servers that say who refused, and why.",
        add_completion=False,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    add_verbs(app)
    return app


def main(arguments: list[str] | None = None) -> int:
    """Run one verb.

    Returns:
        The process' exit code; a failure has been said on stderr in one line.
    """
    try:
        code = build_app()(arguments, standalone_mode=False)
    except typer.exceptions.TyperException as error:
        return _complain(error.format_message(), ExitCode.USAGE)
    except typer.Exit as leaving:
        return leaving.exit_code
    except LoadgenError as error:
        return _complain(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", ExitCode.INTERRUPTED)
    except BrokenPipeError:
        return ExitCode.OK
    except OSError as error:
        what = error.strerror or str(error)
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{what}", ExitCode.USAGE)
    return code if isinstance(code, int) else ExitCode.OK


def _complain(message: str, code: int) -> int:
    line = " ".join(message.split())
    printable = "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line
    )
    sys.stderr.write(f"loadgen: error: {printable}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
