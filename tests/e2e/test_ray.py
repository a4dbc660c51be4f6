"""A schedule offered from the nodes of a Ray cluster: two raylets on this machine.

``make test-ray`` runs these in an environment of their own that has Ray.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.recording_server import Recording, recording_server

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed here: make test-ray",
)

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
}
START_S = 90
NODE = ("--num-cpus", "1", "--object-store-memory", "100000000", "--block")


class Cluster(NamedTuple):
    """Where the head is, where nodes keep files, and the processes of both nodes."""

    address: str
    folder: Path
    head: subprocess.Popen[bytes]
    second: subprocess.Popen[bytes]


def ray(*arguments: str, folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "ray.log").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", *arguments],
            env={**ENVIRONMENT, "TMPDIR": str(folder)},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_until(condition: Callable[[], bool], limit_s: float = START_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it never happens"
        time.sleep(0.05)


def processors(address: str) -> int:
    """How many the cluster has; 0 while it cannot be reached."""
    asked = (
        "import ray,sys;"
        f"ray.init('{address}',log_to_driver=False,logging_level=40);"
        "print(int(ray.cluster_resources().get('CPU',0)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    return int(done.stdout) if done.returncode == 0 else 0


@contextmanager
def two_nodes() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # sockets: a short path
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = f"127.0.0.1:{port}"
    here = ("--node-ip-address", "127.0.0.1", "--disable-usage-stats", *NODE)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        head = ray(
            *("start", "--head", "--port", str(port), "--include-dashboard", "false"),
            *("--temp-dir", str(folder), *here),
            folder=folder,
        )
        stack.callback(end, head)
        wait_until(lambda: processors(address) >= 1)
        second = ray("start", "--address", address, *here, folder=folder)
        stack.callback(end, second)
        wait_until(lambda: processors(address) >= 2)
        yield Cluster(address, folder, head, second)


def end(node: subprocess.Popen[bytes]) -> None:
    """End a node: what Ray started for it is of its session."""
    for pid in session_of(node.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    node.wait()


def session_of(leader: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            found.append(int(path.parent.name))
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with two_nodes() as cluster:
        yield cluster


@pytest.fixture
def server() -> Iterator[Recording]:
    with recording_server(Recording()) as recording:
        yield recording


def loadgen(*arguments: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*(sys.executable, "-m", "loadgen.cli"), *arguments, "--json"],
        cwd=cwd,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def summary_of(going: subprocess.Popen[str]) -> dict[str, Any]:
    """Standard output is the summary and nothing else, whatever Ray says."""
    out, err = going.communicate(timeout=180)
    assert going.returncode in (0, 3), err
    summary: dict[str, Any] = json.loads(out)
    return summary


def folder_of(cwd: Path) -> Path:
    (folder,) = (cwd / "results").iterdir()
    return folder


def by_ray(cluster: Cluster, processes: int = 2) -> tuple[str, ...]:
    return (
        *("--engine", "ray", "--ray-address", cluster.address),
        *("--processes", str(processes)),
    )


def test_two_nodes_send_what_one_process_sends(
    tmp_path: Path, server: Recording, cluster: Cluster
) -> None:
    """The same bodies under the same ids; clocks bracketed; nothing left behind."""
    plan = ("plan", "--workload", "mixed", "--rate", "50/s", "--duration", "1s")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "loadgen.cli",
            *plan,
            "--model",
            "m",
            "--out",
            "s.jsonl",
        ],
        cwd=tmp_path,
        env=ENVIRONMENT,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    seen = []
    for name, flags in (("local", ()), ("ray", by_ray(cluster))):
        server.bodies.clear()
        server.headers.clear()
        cwd = tmp_path / name
        cwd.mkdir()
        to = ("--url", server.url, "--header", "X-Key: s3cret")
        summary = summary_of(loadgen("replay", "../s.jsonl", *to, *flags, cwd=cwd))
        count = len(server.bodies)
        assert summary["outcomes"] == {"ok": count}
        assert summary["offered"]["requests"] == count > 30
        assert summary["client"]["processes"] == (2 if flags else 1)
        ids = [headers["x-request-id"].rpartition("-")[2] for headers in server.headers]
        assert {headers["x-key"] for headers in server.headers} == {"s3cret"}
        seen.append(dict(zip(ids, server.bodies, strict=True)))
    assert seen[0] == seen[1]
    assert not list(cluster.folder.glob("loadgen-*")), "a node keeps nothing"
    folder = folder_of(tmp_path / "ray")
    assert {path.name for path in folder.iterdir()} == {
        *("client.json", "manifest.json", "requests.jsonl", "schedule.jsonl"),
        *("summary.json", "telemetry.jsonl"),
    }
    clock = json.loads((folder / "manifest.json").read_bytes())["clock"]
    assert [host["process"] for host in clock["hosts"]] == [0, 1]
    for host in clock["hosts"]:  # both nodes are this machine: the truth is zero
        assert abs(host["offset_ns"]) <= host["error_ns"]
        assert abs(host["after_offset_ns"]) <= host["after_error_ns"]
    assert 0 < clock["worst_bound_ns"] < 100_000_000


def test_too_small_a_cluster_is_refused_before_anything_is_written(
    tmp_path: Path, server: Recording, cluster: Cluster
) -> None:
    going = loadgen("burst", "--url", server.url, *by_ray(cluster, 3), cwd=tmp_path)
    _, err = going.communicate(timeout=60)
    assert going.returncode == 2
    assert "2 free processors, 3 are needed" in err
    assert not (tmp_path / "results").exists()


def test_no_cluster_is_said_in_one_line(tmp_path: Path, server: Recording) -> None:
    going = loadgen(
        *("burst", "--url", server.url, "--engine", "ray"),
        *("--ray-address", "127.0.0.1:1"),
        cwd=tmp_path,
    )
    out, err = going.communicate(timeout=120)
    assert going.returncode == 2
    assert out == ""
    assert "no Ray cluster at 127.0.0.1:1" in err


def test_a_killed_process_of_a_node_is_like_one_of_ours(
    tmp_path: Path, server: Recording, cluster: Cluster
) -> None:
    """The node lives on: records come back, the rest is told apart."""
    going = burst_of_6_s(tmp_path, server, cluster)
    (issuer,) = issuers(cluster.second)
    os.kill(issuer, signal.SIGKILL)
    summary = summary_of(going)
    assert summary["verdict"]["status"] == "invalid"
    assert "died (SIGKILL)" in reason(summary)
    its, others = by_share(tmp_path)
    assert set(others) == {"ok"}
    assert its.count("ok") >= 10
    assert its.count("internal") <= 20
    assert its.count("unsent") > 50


def test_a_lost_node_loses_its_requests_and_is_named(
    tmp_path: Path, server: Recording, cluster: Cluster
) -> None:
    """Last of all: the cluster has one node less."""
    going = burst_of_6_s(tmp_path, server, cluster)
    end(cluster.second)
    summary = summary_of(going)
    assert going.returncode == 3
    assert summary["verdict"]["status"] == "invalid"
    assert "was lost" in reason(summary)
    its, others = by_share(tmp_path)
    assert set(others) == {"ok"}
    assert set(its) <= {"internal", "unsent"}
    assert summary["outcomes"]["ok"] == 150
    clock = json.loads((folder_of(tmp_path) / "manifest.json").read_bytes())["clock"]
    assert clock["worst_bound_ns"] is None


def burst_of_6_s(
    cwd: Path, server: Recording, cluster: Cluster
) -> subprocess.Popen[str]:
    """300 requests over two nodes, of which each has sent some."""
    going = loadgen(
        *("burst", "--url", server.url, "--rate", "50/s", "--duration", "6s"),
        *("--workload", "short-questions", "--arrivals", "constant"),
        *by_ray(cluster),
        cwd=cwd,
    )
    wait_until(lambda: len(server.bodies) >= 40)
    return going


def issuers(node: subprocess.Popen[bytes]) -> list[int]:
    """Issuing processes below a node; each leads a session of its own."""
    found = []
    for pid in session_of(node.pid):
        children = Path(f"/proc/{pid}/task").glob("*/children")
        for child in " ".join(path.read_text() for path in children).split():
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            if b"loadgen.issue" in command:
                found.append(int(child))
    return found


def reason(summary: dict[str, Any]) -> str:
    (text,) = [
        reason["text"]
        for reason in summary["verdict"]["reasons"]
        if reason["code"] == "not_fully_issued"
    ]
    return str(text)


def by_share(cwd: Path) -> tuple[list[str], list[str]]:
    """Outcomes of the share that lost something, and of the other."""
    lines = (folder_of(cwd) / "requests.jsonl").read_bytes().splitlines()
    outcomes = [json.loads(line)["outcome"] for line in lines]
    assert len(outcomes) == 300
    shares = [outcomes[0::2], outcomes[1::2]]
    shares.sort(key=lambda share: share.count("ok"))
    return shares[0], shares[1]
