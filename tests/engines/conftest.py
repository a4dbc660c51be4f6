"""Servers that tests share, and the reason where there are none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import servers
from tests.engines.install import NotInstalledError, installed
from tests.engines.servers import Server, running

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
