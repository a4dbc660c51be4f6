"""Whatever a server sends, an attribution comes out: bounded, printable, unsure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.analysis.attribution import Attributor
from loadgen.analysis.signatures import built_in, load_signatures
from loadgen.model import Ending, Outcome, RequestRecord, ServerError
from tests.signature_rows import answer, replayed

ATTRIBUTE = Attributor(load_signatures())
PIECES = [piece for entry in built_in() for piece in (*entry.text, *entry.type)]
NAMES = [name for entry in built_in() for name in entry.headers]
words = st.one_of(st.text(max_size=200), st.sampled_from(PIECES))
errors = st.builds(
    ServerError,
    message=st.none() | words,
    type=st.none() | words,
    code=st.none() | st.integers() | words,
)


def check(record: RequestRecord) -> None:
    found = ATTRIBUTE(record)
    if record.outcome is Outcome.OK:
        assert found is None
        return
    assert found is not None
    assert 1 <= len(found.evidence) <= 6
    assert all(line.isprintable() and len(line) <= 160 for line in found.evidence)


@given(
    outcome=st.sampled_from(Outcome),
    ending=st.sampled_from(Ending),
    status=st.none() | st.integers(100, 999),
    error=st.none() | errors,
    excerpt=st.none() | words,
    headers=st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=20), words),
    finish=st.none() | words,
    detail=st.none() | words,
    first_token_ns=st.none() | st.just(1),
)
def test_any_record(
    outcome: Outcome,
    ending: Ending,
    status: int | None,
    error: ServerError | None,
    excerpt: str | None,
    headers: dict[str, str],
    finish: str | None,
    detail: str | None,
    first_token_ns: int | None,
) -> None:
    check(
        RequestRecord(
            seq=0,
            request_id="r",
            group="g",
            scheduled_ns=0,
            sent_ns=0,
            outcome=outcome,
            ending=ending,
            status=status,
            error=error,
            body_excerpt=excerpt,
            headers=headers,
            finish_reason=finish,
            detail=detail,
            first_token_ns=first_token_ns,
        )
    )


@given(body=st.text(max_size=400), status=st.integers(200, 599))
def test_any_body(body: str, status: int) -> None:
    check(replayed(answer(body, status)))


@pytest.mark.parametrize(
    "body",
    [
        "[" * 5000,
        '{"error":' * 1000,
        '{"error":{"message":' + '"x' + "\\u202e" * 600 + '"}}',
        '{"error":null}',
        '{"error":[]}',
        '{"error":[{"message":"x"}]}',
        '{"error":{"message":{"a":1},"type":[],"code":{}}}',
        '{"error":{"code":1e999}}',
        "\n" * 5000 + "x",
        ' "a"' * 2000,
        "<" * 5000,
        "data: {" * 1000,
        "\x1b[31mno healthy upstream\x1b[0m",
        "null",
        '"text"',
        "\ufeff{}",
    ],
)
def test_odd_bodies(body: str) -> None:
    check(replayed(answer(body, 503)))
    check(replayed(answer(body, 200)))
