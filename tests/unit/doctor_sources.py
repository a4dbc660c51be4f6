"""Small source trees shaped like vLLM's: an old one, and one that can refuse."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

OLD = {
    "vllm/__init__.py": "",
    "vllm/_version.py": "__version__ = version = '0.8.5'\n",
    "vllm/config.py": '''
class SchedulerConfig:
    """Settings of the scheduler."""

    max_num_seqs: int = None  # type: ignore

    def __post_init__(self) -> None:
        if self.max_num_seqs is None:
            self.max_num_seqs = 128
''',
    "vllm/engine/arg_utils.py": """
from typing import Optional


class EngineArgs:
    max_num_seqs: Optional[int] = SchedulerConfig.max_num_seqs

    @staticmethod
    def add_cli_args(parser, scheduler_kwargs):
        parser.add_argument("--max-num-seqs", **scheduler_kwargs["max_num_seqs"])

    def choose(self, big):
        if big:
            default_max_num_seqs = 1024
        else:
            default_max_num_seqs = 256
        if self.max_num_seqs is None:
            self.max_num_seqs = default_max_num_seqs
""",
    "vllm/v1/metrics/loggers.py": """
class Logger:
    def __init__(self, prom, old_names):
        self.running = prom.Gauge(name="vllm:num_requests_running", documentation="r")
        self.waiting = prom.Gauge("vllm:num_requests_waiting", "w")
        self.usage = prom.Gauge(name="vllm:gpu_cache_usage_perc", documentation="u")
        self.preempted = prom.Counter(name="vllm:num_preemptions_total")
        if old_names:
            self.swapped = prom.Gauge(name="vllm:num_requests_swapped")
""",
}

NEW = {
    "vllm/__init__.py": "",
    "vllm/_version.py": (
        "__version__: str\n__version__ = version = '0.33.0'\n"
        "__version_tuple__ = (0, 33, 0)\n"
    ),
    "vllm/config/scheduler.py": """
from typing import ClassVar

from pydantic import Field


@config
class SchedulerConfig:
    DEFAULT_MAX_NUM_SEQS: ClassVar[int] = 128

    max_num_seqs: int = Field(default=DEFAULT_MAX_NUM_SEQS, ge=1)
    max_num_queued_reqs: int | None = Field(default=None, ge=0)
    max_num_queued_tokens: int | None = Field(default=None, ge=0)
""",
    "vllm/engine/arg_utils.py": """
class EngineArgs:
    max_num_seqs: int | None = None
    max_num_queued_reqs: int | None = None
    max_num_queued_tokens: int | None = None

    @staticmethod
    def add_cli_args(parser, kwargs):
        parser.add_argument("--max-num-seqs", **kwargs["max_num_seqs"])
        parser.add_argument("--max-num-queued-reqs", **kwargs["max_num_queued_reqs"])

    @classmethod
    def get_batch_defaults(cls, world_size):
        default_max_num_seqs = {
            UsageContext.LLM_CLASS: 512,
            UsageContext.OPENAI_API_SERVER: 256,
        }
        if platform.is_cpu():
            default_max_num_seqs = {
                UsageContext.LLM_CLASS: 256 * world_size,
                UsageContext.OPENAI_API_SERVER: 128 * world_size,
            }
        return default_max_num_seqs
""",
    "vllm/v1/engine/__init__.py": """
class Ready:
    max_num_seqs: int
""",
    "vllm/v1/metrics/loggers.py": """
class Logger:
    def __init__(self):
        gauge = self._gauge_cls(name="vllm:num_requests_running", labelnames=[])
        gauge = self._gauge_cls(name="vllm:num_requests_waiting", labelnames=[])
        gauge = self._gauge_cls(name="vllm:kv_cache_usage_perc", labelnames=[])
        count = self._counter_cls(name="vllm:num_preemptions", labelnames=[])
        count = self._counter_cls(name="vllm:admission_rejections", labelnames=[])
""",
    "vllm/v1/metrics/reader.py": """
def is_usage(metric):
    return metric.name == "vllm:gpu_cache_usage_perc"
""",
    "vllm/v1/kv_offload/names.py": """
class Names:
    STORES_SKIPPED = "vllm:kv_offload_stores_skipped"
""",
}


def write_tree(files: dict[str, str], folder: Path) -> Path:
    """Write the files below a folder; gives the folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def write_sdist(files: dict[str, str], path: Path, root: str) -> Path:
    """Write the files as an sdist, all below its root folder."""
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            data = text.encode()
            member = tarfile.TarInfo(f"{root}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return path


def write_wheel(files: dict[str, str], path: Path) -> Path:
    """Write the files as a wheel."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path
