"""Servers that tests share, and the reason where there are none."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import servers
from tests.engines.install import NotInstalledError, installed
from tests.engines.servers import Server, running

TOLD = ("passed", "failed", "error", "skipped")
ALWAYS_THERE = {"llamacpp"}  # what CI must be able to install


def need(engine: str) -> None:
    """Skip where an engine is not installed; fail where it has to be."""
    try:
        installed(engine)
    except NotInstalledError as error:
        told = f"{engine}: {error}"
        if engine in ALWAYS_THERE and os.environ.get("CI") == "true":
            pytest.fail(f"CI must have {told}", pytrace=False)
        pytest.skip(told)


@pytest.fixture(scope="session")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where servers write."""
    return tmp_path_factory.mktemp("servers")


@pytest.fixture(scope="session")
def need_llamacpp() -> None:
    need("llamacpp")


@pytest.fixture(scope="session")
def need_proxies() -> None:
    need("proxies")


@pytest.fixture(scope="session")
def need_vllm() -> None:
    need("vllm")


@pytest.fixture(scope="session")
def llamacpp(need_llamacpp: None, logs: Path) -> Iterator[Server]:
    """llama.cpp with 4 slots; not to be killed."""
    with running(servers.llamacpp(), logs) as server:
        yield server


@pytest.fixture(scope="session")
def vllm(need_vllm: None, logs: Path) -> Iterator[Server]:
    """vLLM that runs 4 requests and queues 4 more; not to be killed."""
    with running(servers.vllm("--max-num-queued-reqs", "8"), logs) as server:
        yield server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each kind of server: what ran, and what did not and why."""
    counts: dict[str, Counter[str]] = {}
    reasons: dict[str, set[str]] = {}
    for outcome in TOLD:
        for report in terminalreporter.stats.get(outcome, ()):
            folder, _, rest = report.nodeid.rpartition("engines/test_")
            kind = rest.partition(".")[0]
            if not folder or kind == "install":
                continue
            counts.setdefault(kind, Counter())[outcome] += 1
            if outcome == "skipped":
                told = report.longrepr[2].removeprefix("Skipped: ")
                reasons.setdefault(kind, set()).add(told)
    if counts:
        terminalreporter.section("real engines")
    for kind, count in sorted(counts.items()):
        told = ", ".join(f"{count[outcome]} {outcome}" for outcome in TOLD)
        why = "; ".join(sorted(reasons.get(kind, ())))
        terminalreporter.write_line(f"{kind}: {told}" + (f": {why}" if why else ""))
