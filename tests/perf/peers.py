"""Other load generators, each by its own command, where they are installed.

All offer the same load: 16 prompt tokens, so many output tokens, a constant rate
where they know one. What they take and how late they are is seen from outside.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loadgen.units import NS_PER_S
from tests.perf.trial import Load, Stamped, Trial, Watch, judge
from tests.perf.truth import TruthServer, favour

__all__ = ["Peer", "find_peers"]

_LIMIT_S = 300


class Asked(NamedTuple):
    """One run of a peer."""

    url: str
    load: Load
    tokenizer: Path
    folder: Path


class Kind(NamedTuple):
    """One peer: its package, its program, its words, and where it tells instants.

    ``steady`` is False where it offers at random gaps only: then it is on time if
    its rate came within a tenth of what was asked.
    """

    package: str
    program: str
    words: Callable[[Asked], list[str]]
    stamped: Callable[[Path], dict[str, Stamped]] | None = None
    steady: bool = True


@dataclass
class Peer:
    """An installed one, on that core.

    Attributes:
        said: the last lines of its last run, for when it failed.
    """

    kind: Kind
    program: str
    core: int
    tokenizer: Path
    version: str
    coalesces: bool = False
    first_rps: float = 40.0
    said: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind.program} {self.version}"

    @property
    def program_name(self) -> str:
        return self.kind.program

    def offer(self, server: TruthServer, load: Load) -> Trial:
        with tempfile.TemporaryDirectory() as name:
            return self._offer(server, load, Path(name))

    def _offer(self, server: TruthServer, load: Load, folder: Path) -> Trial:
        url = f"http://127.0.0.1:{server.port}"
        words = self.kind.words(Asked(url, load, self.tokenizer, folder))
        server.open_log()
        began_ns = time.monotonic_ns()
        process = subprocess.Popen(
            [self.program, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=_environment(folder),
            start_new_session=True,
        )
        os.sched_setaffinity(process.pid, {self.core})
        favour(process.pid)
        with Watch(process.pid, every_s=0.1).on() as watch:
            try:
                said, _ = process.communicate(timeout=_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)  # the session is its own
                said, _ = process.communicate()
        self.said = said.decode("utf-8", "replace")[-2000:]
        stamped: Mapping[str, Stamped] = {}
        if self.kind.stamped is not None and process.returncode == 0:
            stamped = self.kind.stamped(folder)
        trial = judge(load, server.served(), stamped, watch=watch, began_ns=began_ns)
        return trial if self.kind.steady else _at_random(trial, load)


def _at_random(trial: Trial, load: Load) -> Trial:
    """It cannot be told how late each was, only whether all came in time."""
    if not len(trial.lag):
        return trial
    grid_ns = np.arange(len(trial.lag)) * NS_PER_S / load.rate_rps
    took_ns = trial.lag[-1] - trial.lag[0] + grid_ns[-1]
    kept = took_ns <= 1.1 * load.seconds * NS_PER_S
    return replace(
        trial,
        asked=len(trial.lag),
        late_share=0.0 if kept else 1.0,
        lag=np.empty(0, np.float64),
    )


def find_peers(folders: Sequence[Path], core: int, tokenizer: Path) -> Iterator[Peer]:
    """Those on PATH and in virtual environments at or below the folders."""
    places = [str(place) for folder in folders for place in _programs_in(folder)]
    path = os.pathsep.join([*places, os.environ.get("PATH", "")])
    for kind in KINDS:
        program = shutil.which(kind.program, path=path)
        if program is not None:
            yield Peer(kind, program, core, tokenizer, _version(program, kind.package))


def _programs_in(folder: Path) -> list[Path]:
    found = [folder, folder / "bin", *sorted(folder.glob("*/bin"))]
    return [*found, *sorted(folder.glob("*/venv/bin"))]


def _version(program: str, package: str) -> str:
    python = Path(program).resolve().parent / "python"
    done = subprocess.run(
        [
            python,
            "-c",
            f"import importlib.metadata as m; print(m.version({package!r}))",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "?"


def _environment(folder: Path) -> dict[str, str]:
    ours = {
        name: value for name, value in os.environ.items() if "proxy" not in name.lower()
    }
    offline = {"HF_ENDPOINT": "http://127.0.0.1:9", "HOME": str(folder)}
    return {
        **ours,
        **offline,
        "OPENAI_API_KEY": "none",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _vllm(asked: Asked) -> list[str]:
    load = asked.load
    return [
        *("bench", "serve", "--backend", "openai-chat", "--base-url", asked.url),
        *("--endpoint", "/v1/chat/completions", "--model", "m"),
        *("--tokenizer", str(asked.tokenizer), "--dataset-name", "random"),
        *("--random-input-len", "16", "--random-output-len", str(load.tokens)),
        *("--num-prompts", str(load.requests), "--request-rate", f"{load.rate_rps:g}"),
        *("--burstiness", "1000000", "--ignore-eos", "--disable-tqdm"),
        *("--request-id-prefix", "v-", "--save-result", "--save-detailed"),
        *("--result-dir", str(asked.folder), "--result-filename", "vllm.json"),
    ]


def _vllm_stamped(folder: Path) -> dict[str, Stamped]:
    """Its clock is Python's perf_counter, which on Linux is CLOCK_MONOTONIC."""
    told: dict[str, Any] = json.loads((folder / "vllm.json").read_bytes())
    found = {}
    lines = zip(told["start_times"], told["ttfts"], told["itls"], strict=True)
    for index, (start_s, ttft_s, itls_s) in enumerate(lines):
        at_s = start_s + ttft_s + np.cumsum([0.0, *itls_s])
        at_ns = np.rint(at_s * 1e9).astype(np.int64)
        found[f"v-{index}"] = Stamped(None, int(start_s * 1e9), at_ns)
    return found


def _evalscope(asked: Asked) -> list[str]:
    load = asked.load
    tokens = str(load.tokens)
    return [
        *("perf", "--url", f"{asked.url}/v1/chat/completions", "--api", "openai"),
        *("--model", "m", "--tokenizer-path", str(asked.tokenizer)),
        *("--dataset", "random", "--min-prompt-length", "16"),
        *("--max-prompt-length", "16", "--prefix-length", "0"),
        *("--number", str(load.requests), "--parallel", str(load.requests)),
        *(
            "--rate",
            f"{load.rate_rps:g}",
            "--stream",
            "--no-test-connection",
            "--open-loop",
        ),
        *("--max-tokens", tokens, "--min-tokens", tokens),
        *("--outputs-dir", str(asked.folder)),
    ]


def _inference_perf(asked: Asked) -> list[str]:
    load = asked.load
    tokens, stage = (
        load.tokens,
        {"rate": load.rate_rps, "duration": max(1, round(load.seconds))},
    )
    lengths = {
        "min": 16,
        "max": 16,
        "mean": 16,
        "std_dev": 0,
        "total_count": load.requests,
    }
    config = {
        "api": {"type": "completion", "streaming": True},
        "data": {
            "type": "random",
            "input_distribution": lengths,
            "output_distribution": {
                **lengths,
                "min": tokens,
                "max": tokens,
                "mean": tokens,
            },
        },
        "load": {"type": "constant", "stages": [stage], "num_workers": 1},
        "server": {
            "type": "vllm",
            "model_name": "m",
            "base_url": asked.url,
            "ignore_eos": True,
        },
        "tokenizer": {"pretrained_model_name_or_path": str(asked.tokenizer)},
        "storage": {"local_storage": {"path": str(asked.folder / "reports")}},
    }
    path = asked.folder / "config.yml"
    path.write_text(json.dumps(config))  # JSON is YAML
    return ["--config_file", str(path)]


def _guidellm(asked: Asked) -> list[str]:
    load = asked.load
    lengths = f"prompt_tokens=16,output_tokens={load.tokens}"
    return [
        *("run", "--backend", f"kind=openai_http,target={asked.url},model=m"),
        *("--profile", f"kind=constant,rate={load.rate_rps:g}"),
        *("--constraint", f"kind=max_requests,count={load.requests}"),
        *("--tokenizer", f"kind=hf_auto,model={asked.tokenizer}"),
        *("--data", f"kind=synthetic_text,{lengths}", "--disable-console"),
    ]


def _aiperf(asked: Asked) -> list[str]:
    load = asked.load
    return [
        *("profile", "--model", "m", "--url", asked.url, "--endpoint-type", "chat"),
        *("--streaming", "--tokenizer", str(asked.tokenizer)),
        *("--request-rate", f"{load.rate_rps:g}", "--request-rate-mode", "constant"),
        *("--request-count", str(load.requests), "--num-dataset-entries", "100"),
        *(
            "--synthetic-input-tokens-mean",
            "16",
            "--synthetic-input-tokens-stddev",
            "0",
        ),
        *("--output-tokens-mean", str(load.tokens), "--output-tokens-stddev", "0"),
        *("--ui-type", "none", "--artifact-dir", str(asked.folder / "out")),
    ]


KINDS = (
    Kind("vllm", "vllm", _vllm, _vllm_stamped),
    Kind("evalscope", "evalscope", _evalscope, steady=False),
    Kind("inference-perf", "inference-perf", _inference_perf, steady=False),
    Kind("guidellm", "guidellm", _guidellm),
    Kind("aiperf", "aiperf", _aiperf),
)
