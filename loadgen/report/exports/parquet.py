"""Parquet: the same columns typed, and every token's stamp. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, BinaryIO, TypeVar

from loadgen.errors import UsageError
from loadgen.report.exports.rows import COLUMNS, rows
from loadgen.report.exports.run import Exported

__all__ = ["write_parquet"]

T = TypeVar("T")
BATCH_ROWS = 10_000


def write_parquet(run: Exported, out: BinaryIO) -> None:
    """Rows in batches, so that memory does not grow with the run.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UsageError(
            "the export parquet needs the package pyarrow",
            "pip install 'loadgen[parquet]'",
        ) from None
    types = {
        "text": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
    }
    schema = pa.schema(
        [
            *((column.name, types[column.kind]) for column in COLUMNS),
            ("token_ns", pa.list_(pa.int64())),
            ("token_exact", pa.list_(pa.bool_())),
        ],
        metadata=_about(run),
    )
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in _batches(_whole_rows(run)):
            columns = zip(*batch, strict=True)
            arrays = [
                pa.array(column, type=field.type)
                for column, field in zip(columns, schema, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _whole_rows(run: Exported) -> Iterator[list[Any]]:
    for record, cells in rows(run):
        yield [*cells, record.token_ns, record.token_exact]


def _about(run: Exported) -> dict[str, str]:
    """What a table alone would not tell: where it comes from and what it stands on."""
    summary = run.summary
    return {
        "loadgen.basis": summary.basis,
        "loadgen.version": summary.run.loadgen_version,
        "loadgen.verdict": summary.verdict.status,
        "loadgen.schedule_digest": summary.offered.schedule_digest,
    }


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    stream = iter(items)
    while batch := list(islice(stream, BATCH_ROWS)):
        yield batch
