"""vLLM's two caps told apart, by short questions against long documents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import servers
from tests.engines.burst import Run, burst
from tests.engines.servers import Server, running
from tests.engines.vllm_counts import settled

pytestmark = pytest.mark.engines

REASON = "max_num_queued_tokens"
# The tiny model's tokenizer makes about six tokens of a word: a question has some
# 130, a document 1,000. All 20 questions together stay below the cap; 20 documents
# are four times above it.
CAP_TOKENS = 5000
QUESTION = """
[[groups]]
name = "short-question"
kind = "question"
prompt_tokens = 20
max_tokens = 16
"""
DOCUMENT = """
[[groups]]
name = "long-document"
kind = "document"
prompt_tokens = 220
max_tokens = 16
"""
TWENTY_AT_ONCE = ("--rate", "20000/s", "--duration", "1ms")
FORTY_AT_ONCE = ("--rate", "40000/s", "--duration", "1ms", "--equal")


@pytest.fixture(scope="module")
def token_capped(need_vllm: None, logs: Path) -> Iterator[Server]:
    launch = servers.vllm("--max-num-queued-tokens", str(CAP_TOKENS))
    with running(launch, logs) as server:
        yield server


def workload(folder: Path, *groups: str) -> tuple[str, str]:
    path = folder / "workload.toml"
    path.write_text("".join(groups))
    return "--workload", str(path)


def refusals(run: Run, resource: str) -> int:
    """Refusals by the engine's admission; checks that there are no others."""
    blamed = run.blamed()
    assert set(blamed) <= {("engine_admission", resource)}
    return sum(blamed.values())


def test_the_token_cap_does_not_mind_short_questions(
    token_capped: Server, tmp_path: Path
) -> None:
    before = settled(token_capped, REASON)
    run = burst(
        token_capped.url,
        tmp_path / "burst",
        *workload(tmp_path, QUESTION),
        *TWENTY_AT_ONCE,
    )
    run.check_accounts(offered=20)
    assert run.outcomes == {"ok": 20}
    assert sum(r["prompt_tokens"] for r in run.records) < CAP_TOKENS
    assert settled(token_capped, REASON).refused == before.refused


def test_the_token_cap_refuses_long_documents(
    token_capped: Server, tmp_path: Path
) -> None:
    before = settled(token_capped, REASON)
    run = burst(
        token_capped.url,
        tmp_path / "burst",
        *workload(tmp_path, DOCUMENT),
        *TWENTY_AT_ONCE,
    )
    engine = settled(token_capped, REASON) - before
    run.check_accounts(offered=20)
    assert refusals(run, "queued_tokens") == engine.refused > 0
    assert run.outcomes["ok"] == engine.succeeded
    assert sum(r["prompt_tokens"] for r in run.records) > 3 * CAP_TOKENS


def test_equal_counts_under_the_token_cap_with_actual_lengths(
    token_capped: Server, tmp_path: Path
) -> None:
    before = settled(token_capped, REASON)
    run = burst(
        token_capped.url,
        tmp_path / "burst",
        *workload(tmp_path, QUESTION, DOCUMENT),
        *FORTY_AT_ONCE,
    )
    engine = settled(token_capped, REASON) - before
    run.check_accounts(offered=40)
    assert refusals(run, "queued_tokens") == engine.refused > 0
    for group in ("short-question", "long-document"):
        assert run.summary["groups"][group]["offered"] == 20
    for record in run.records:
        ok = record["outcome"] == "ok"
        assert record["prompt_tokens_source"] == ("usage" if ok else "tokenize")
    [row] = run.summary["rejections"]
    assert row["unit"] == "tokens"


def test_the_request_cap_does_not_care_how_long(vllm: Server, tmp_path: Path) -> None:
    # Answers so long that none ends, and makes room, while requests still come.
    answer = ("--max-tokens", "200", "--extra-body", '{"ignore_eos": true}')
    taken = {}
    for name, group in (("questions", QUESTION), ("documents", DOCUMENT)):
        before = settled(vllm)
        run = burst(
            vllm.url,
            tmp_path / name,
            *workload(tmp_path, group),
            *TWENTY_AT_ONCE,
            *answer,
        )
        engine = settled(vllm) - before
        run.check_accounts(offered=20)
        assert refusals(run, "queued_requests") == engine.refused > 0
        assert run.summary["rejections"][0]["unit"] == "requests"
        taken[name] = run.outcomes["ok"]
    assert taken["questions"] == taken["documents"]
