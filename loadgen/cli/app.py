"""The command line: one verb a file, errors in one line, the README's exit codes."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence

import typer

from loadgen.cli.streams import standing_streams
from loadgen.cli.verbs import add_verbs
from loadgen.errors import ExitCode, LoadgenError, UsageError

__all__ = ["run"]

MAX_COMPLAINT_CHARS = 1500


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


def run(arguments: Sequence[str]) -> int:
    """Run one verb and say on stderr, in one line, why it failed if it did.

    Returns:
        The process' exit code.
    """
    with _stops_as_interrupts(), contextlib.ExitStack() as streams:
        try:
            streams.enter_context(standing_streams())
            _refuse_undecodable(arguments)
            code = build_app()(list(arguments), standalone_mode=False)
            sys.stdout.flush()
        except typer.exceptions.TyperException as error:
            return _complain(error.format_message(), ExitCode.USAGE)
        except typer.Exit as leaving:
            return leaving.exit_code
        except LoadgenError as error:
            return _complain(str(error), error.exit_code)
        except (KeyboardInterrupt, typer.Abort):
            return _complain("interrupted", ExitCode.INTERRUPTED)
        except RecursionError:
            return _complain("what it was given is nested too deep", ExitCode.USAGE)
        except OSError as error:
            what = error.strerror or str(error)
            where = f"{error.filename}: " if error.filename else ""
            return _complain(f"{where}{what}", ExitCode.USAGE)
        return code if isinstance(code, int) else ExitCode.OK


@contextlib.contextmanager
def _stops_as_interrupts() -> Iterator[None]:
    """Let a request to end, or a terminal that went, be what Ctrl-C is."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_DFL
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _refuse_undecodable(arguments: Sequence[str]) -> None:
    for argument in arguments:
        try:
            argument.encode("utf-8")
        except UnicodeEncodeError:
            raise UsageError(f"the argument {argument!a} is not text") from None


def _complain(message: str, code: int) -> int:
    line = " ".join(message.split())
    if len(line) > MAX_COMPLAINT_CHARS:
        half = MAX_COMPLAINT_CHARS // 2
        line = f"{line[:half]} ... {line[-half:]}"
    printable = "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line
    )
    sys.stderr.write(f"loadgen: error: {printable}\n")
    return code
