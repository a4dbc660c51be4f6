"""``loadgen doctor`` as a person runs it: on a source, on the stand-in, on nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from loadgen.cli.__main__ import main
from loadgen.standin import start
from tests.unit.doctor_sources import NEW, OLD, write_sdist, write_tree


def test_without_flags_this_machine_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["doctor"])
    said = capsys.readouterr()
    assert code in (0, 1)  # as the machine is
    assert said.out.startswith("This machine (")
    assert said.err == ""
    assert "kernel stamps" in said.out
    assert "vLLM" not in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_a_source_says_what_its_defaults_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sdist = write_sdist(NEW, tmp_path / "vllm-0.33.0.tar.gz", "vllm-0.33.0")
    assert main(["doctor", "--vllm", str(sdist)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = [" ".join(line.split()) for line in lines]
    for row in (
        "ok max-num-seqs default 128 (class default)",
        "warn max-num-queued-reqs default None (class default)",
        "warn max-num-queued-tokens default None (class default)",
        "warn verdict every request is accepted and waits",
        "ok vllm:num_requests_running present (gauge)",
        "ok vllm:num_requests_waiting present (gauge)",
        "warn vllm:gpu_cache_usage_perc MISSING",
        "ok vllm:num_preemptions_total present (counter)",
    ):
        assert row in rows
    assert not any("This machine" in line for line in lines)


def test_a_metric_that_is_read_and_gone_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(write_tree(NEW, tmp_path))
    name = "vllm:gpu_cache_usage_perc"
    assert main(["doctor", "--vllm", source, "--series", name, "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    [failed] = [check for check in checks if check["status"] == "fail"]
    assert failed["id"] == "vllm.signal.gpu_cache_usage_perc"
    assert failed["do"] == "read vllm:kv_cache_usage_perc instead"
    assert all(set(c) == {"id", "status", "found", "meaning", "do"} for c in checks)
    old = str(write_tree(OLD, tmp_path / "old"))
    assert main(["doctor", "--vllm", old, "--series", name]) == 0


def test_the_stand_in(tmp_path: Path) -> None:
    source = str(write_tree(NEW, tmp_path))

    async def look() -> tuple[int, dict[str, dict[str, Any]]]:
        standin = await start()
        flags = ["--url", standin.url, "--vllm", source, "--probe", "--json"]
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "loadgen.cli", "doctor", *flags),
                stdout=asyncio.subprocess.PIPE,
            )
            printed, _ = await process.communicate()
        finally:
            await standin.stop()
        checks = json.loads(printed)["checks"]
        return process.returncode or 0, {check["id"]: check for check in checks}

    code, told = asyncio.run(look())
    failed = [name for name, check in told.items() if check["status"] == "fail"]
    assert code == (1 if failed else 0)
    assert not [name for name in failed if not name.startswith("machine.")]
    assert told["server.engine"]["found"].startswith("loadgen's stand-in")
    assert told["server.api"]["found"] == "openai-chat, openai-completions"
    assert told["server.series"]["status"] == "ok"
    assert told["server.gateway"]["status"] == "ok"
    assert "closed an idle connection after" in told["server.keep-alive"]["found"]
    assert told["server.clock"]["status"] == "ok"
    assert "1 output tokens" in told["server.generation"]["found"]
    assert told["vllm.admission"]["status"] == "warn"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--vllm /no/such/source", "no such file"),
        ("--vllm {empty}", "holds no vLLM"),
        ("--probe", "--url"),
        ("--url 127.0.0.1:8000", "no scheme"),
        ("--url http://127.0.0.1:1 --api telepathy", "telepathy"),
        ("--url http://127.0.0.1:1 --api-key-env NO_SUCH_VARIABLE", "not set"),
        ("--url http://127.0.0.1:1 --metrics-url x", "no address"),
        (
            "--url http://127.0.0.1:1 --metrics-url http://a/m --metrics-url http://b/m",
            "one --metrics-url",
        ),
        ("--vllm {empty} --series {{", "names no series"),
        ("--gpu on", "--gpu"),
    ],
)
def test_bad_flags_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: str, words: str
) -> None:
    assert main(["doctor", *flags.format(empty=tmp_path).split()]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
    assert len(said.err.splitlines()) == 1
