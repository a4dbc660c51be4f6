"""From flags to a judge: signatures, logs and limits."""

from __future__ import annotations

from pathlib import Path

from loadgen.analysis.attribution import Attributor
from loadgen.analysis.goodput import Slo
from loadgen.analysis.signatures import load_signatures
from loadgen.cli.options import EvidenceFlags
from loadgen.control.files import text_of
from loadgen.control.judging import Judge
from loadgen.control.logs import LogFile, Logs

__all__ = ["judge_by"]

MAX_SIGNATURES_BYTES = 16 << 20


def judge_by(flags: EvidenceFlags, slo: Slo, *, from_now: bool) -> Judge:
    """The judge that the flags ask for.

    Args:
        flags: where more is known.
        slo: the limits of goodput.
        from_now: pass over what the logs hold already, as before a run.

    Raises:
        UsageError: a file that cannot be read or is not what it should be.
    """
    text = None
    if flags.signatures is not None:
        text = text_of(flags.signatures, "--signatures", MAX_SIGNATURES_BYTES)
    signatures = load_signatures(text, name=str(flags.signatures))

    def log(path: Path | None, flag: str) -> LogFile | None:
        if path is None:
            return None
        file = LogFile.from_now(path, flag)
        return file if from_now else LogFile(path)

    return Judge(
        attribute=Attributor(signatures),
        slo=slo,
        logs=Logs(
            server=log(flags.server_log, "--server-log"),
            gateway=log(flags.gateway_log, "--gateway-log"),
        ),
        anew=flags != EvidenceFlags(),
    )
