"""Which exports there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import BinaryIO

from loadgen.analysis.summary import encode
from loadgen.report.exports.csvfile import write_csv
from loadgen.report.exports.junit import write_junit
from loadgen.report.exports.markdown import write_markdown
from loadgen.report.exports.parquet import write_parquet
from loadgen.report.exports.promtext import write_promtext
from loadgen.report.exports.run import Exported
from loadgen.report.exports.vllm_bench import write_vllm_bench

__all__ = ["RUN_EXPORTS", "Writer"]

Writer = Callable[[Exported, BinaryIO], None]


def _write_json(run: Exported, out: BinaryIO) -> None:
    out.write(encode(run.summary))


RUN_EXPORTS: Mapping[str, Writer] = {
    "json": _write_json,
    "csv": write_csv,
    "parquet": write_parquet,
    "junit": write_junit,
    "markdown": write_markdown,
    "prometheus": write_promtext,
    "vllm-bench": write_vllm_bench,
}
"""What ``--export KIND=FILE`` can write of one run."""
