"""Start real servers on free loopback ports, and end them for certain.

Each server leads its own session, so that everything it starts can be found and
ended with it. Its output goes to a file below the folder handed in.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.engines.install import installed
from tests.engines.plain_http import get

__all__ = [
    "Launch",
    "Server",
    "free_port",
    "llamacpp",
    "router",
    "running",
    "started",
    "vllm",
]

LLAMACPP_START_S = 60
VLLM_START_S = 420
ROUTER_START_S = 30
END_S = 5.0
# Below the range of Linux for outgoing connections.
SERVER_PORTS = (20_000, 32_000)
PORTS = (15_000, 32_000)


class Launch(NamedTuple):
    """How to start a server and to know that it is up.

    ``ready_path`` answers 200 once it is; None asks only that the port is open.
    """

    name: str
    argv: Sequence[str]
    port: int
    start_s: float
    ready_path: str | None = "/health"
    environment: Mapping[str, str] = {}


class Server:
    """A running server that we started.

    Attributes:
        url: its address, without a path.
        pid: the process that answers HTTP.
        started_s: seconds from launch to ready; 0.0 until then.
    """

    def __init__(self, launch: Launch, process: subprocess.Popen[bytes], log: Path):
        self.name = launch.name
        self.url = f"http://127.0.0.1:{launch.port}"
        self.port = launch.port
        self.pid = process.pid
        self.started_s = 0.0
        self.log = log
        self._process = process

    def alive(self) -> bool:
        return self._process.poll() is None

    def log_text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self, sign: signal.Signals = signal.SIGKILL) -> None:
        """Signal the process that answers HTTP, and no other."""
        self._process.send_signal(sign)

    def kill_part(self, title: str, sign: signal.Signals = signal.SIGKILL) -> None:
        """Signal the one process of this server that has this in its title."""
        [pid] = [pid for pid, told in self.members().items() if title in told]
        os.kill(pid, sign)

    def members(self) -> dict[int, str]:
        """Living processes of this server's session: pid to command line."""
        return dict(session_members(self.pid))

    def end(self) -> None:
        """SIGTERM, then SIGKILL to all that is left of the session."""
        if self.alive():
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
        deadline = time.monotonic() + END_S
        while (left := self.members()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()
            time.sleep(0.02)
        self._process.wait(END_S)


def session_members(session: int) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            after_name = folder.joinpath("stat").read_text().rpartition(")")[2].split()
            state, session_id = after_name[0], int(after_name[3])
            if session_id == session and state != "Z":
                command = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ")
                yield int(folder.name), command.decode(errors="replace").strip()


@contextmanager
def running(launch: Launch, folder: Path) -> Iterator[Server]:
    """Start a server, wait until it is ready, and end it on leaving."""
    with started(launch, folder) as server:
        await_ready(server, launch)
        yield server


@contextmanager
def started(launch: Launch, folder: Path) -> Iterator[Server]:
    """Start a server and end it on leaving; does not wait until it is ready."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{launch.name}-{launch.port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            launch.argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | dict(launch.environment),
            cwd=folder,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    server = Server(launch, process, log)
    try:
        yield server
    finally:
        server.end()


def die_with_parent() -> None:
    """Have the kernel end this process if the test run is itself killed."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def await_ready(server: Server, launch: Launch) -> None:
    began = time.monotonic()
    while not is_ready(server, launch):
        waited_s = time.monotonic() - began
        if not server.alive() or waited_s > launch.start_s:
            what = "is not ready" if server.alive() else "ended"
            tail = "\n".join(server.log_text().splitlines()[-15:])
            raise RuntimeError(f"{server.name} {what} after {waited_s:.0f} s\n{tail}")
        time.sleep(0.05)
    server.started_s = time.monotonic() - began


def is_ready(server: Server, launch: Launch) -> bool:
    if launch.ready_path is not None:
        return get(server.url + launch.ready_path, timeout_s=2.0).status == 200
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", server.port), timeout=1.0),
    ):
        return True
    return False


def free_port() -> int:
    """A free port that no outgoing connection will be given meanwhile.

    vLLM takes a minute to bind its port; one out of the range that the kernel
    deals out itself would often be taken by then.
    """
    while True:
        port = random.randrange(*SERVER_PORTS)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def llamacpp(context_tokens: int = 4096, slots: int = 4) -> Launch:
    """llama.cpp with the real 270M model; the slots share the context equally."""
    folder = installed("llamacpp")
    port = free_port()
    script = Path(__file__).with_name("llamacpp_server.py")
    numbers = [str(port), str(context_tokens), str(slots)]
    python = str(folder / "venv/bin/python")
    argv = [python, str(script), str(folder / "model.gguf"), *numbers]
    return Launch("llamacpp", argv, port, LLAMACPP_START_S)


def vllm(*flags: str, context_tokens: int = 2048, slots: int = 4) -> Launch:
    """vLLM with tiny random weights, served under the model name ``tiny``."""
    folder = installed("vllm")
    port = free_port()
    argv = [
        str(folder / "venv/bin/python"),
        *("-m", "vllm.entrypoints.cli.main", "serve", str(folder / "model")),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--served-model-name", "tiny", "--load-format", "dummy"),
        *("--dtype", "bfloat16", "--enforce-eager", "--enable-request-id-headers"),
        *("--max-model-len", str(context_tokens), "--max-num-seqs", str(slots)),
        *flags,
    ]
    environment = {
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_HOST_IP": "127.0.0.1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_CACHE_ROOT": str(folder / "cache"),
    }
    return Launch("vllm", argv, port, VLLM_START_S, environment=environment)


def router(worker_url: str, *flags: str) -> Launch:
    """vllm-router in front of one worker."""
    folder = installed("proxies")
    port = free_port()
    argv = [
        str(folder / "venv/bin/vllm-router"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())),
        *("--worker-urls", worker_url, "--policy", "round_robin"),
        *("--log-level", "info", *flags),
    ]
    return Launch("router", argv, port, ROUTER_START_S)
