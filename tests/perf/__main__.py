"""``python -m tests.perf``: what the client can do, and others, against the truth.

Prints one Markdown page. A truth server runs on one core and each client in turn on
another. The highest rates are looked for first; what is measured at a share of them
alternates between the clients, round by round. Nothing here is ever a test: on a
shared machine look at medians, and at ratios within one run.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from tests.perf.bench import Bench, say
from tests.perf.build import CannotBuildError, build
from tests.perf.clients import LimitClient, Ours
from tests.perf.compare import figures_of
from tests.perf.page import page
from tests.perf.peers import find_peers
from tests.perf.product import alone
from tests.perf.trial import Client


def main() -> int:
    """Measure and print; 2 where there is no truth server to be had."""
    asked = _arguments()
    built = None
    try:
        built = build()
    except CannotBuildError as error:
        say(f"no truth server of our own: {error}")
        if asked.server is None:
            return 2
    bench = Bench(
        client_core=asked.client_core,
        server_core=asked.server_core,
        rounds=asked.rounds,
        seconds=asked.seconds,
        built=built,
        given=asked.server,
    )
    bench.leave_client_core()
    found = figures_of(_clients(asked), bench)
    kept = next((one.streams for one in found if isinstance(one.client, Ours)), None)
    ours = alone(bench, 0.6 * kept.rate_rps) if kept and not asked.no_alone else None
    text = page(
        found, ours, bench, shlex.join(["python", "-m", "tests.perf", *sys.argv[1:]])
    )
    if asked.out is not None:
        asked.out.write_text(text)
    sys.stdout.write(text)
    return 0


def _clients(asked: argparse.Namespace) -> list[Client]:
    clients: list[Client] = []
    if asked.limit_client is not None:
        clients.append(LimitClient(asked.limit_client, asked.client_core))
    if not asked.no_loadgen:
        clients.append(Ours(asked.client_core))
    if asked.tokenizer is not None:
        peers = find_peers(asked.peers, asked.client_core, asked.tokenizer)
        clients += [
            one for one in peers if not asked.only or one.program_name in asked.only
        ]
    elif asked.peers:
        say("peers need --tokenizer FOLDER: they are left out")
    return clients


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.perf", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=5)
    add("--seconds", type=float, default=3.0, help="of each load")
    add("--client-core", type=int, default=0)
    add("--server-core", type=int, default=1)
    add("--server", type=Path, help="another truth server (see tests/perf/truth.py)")
    add("--limit-client", type=Path, help="a client in C (see tests/perf/clients.py)")
    add("--peers", type=Path, nargs="*", default=[], help="virtual environments")
    add("--only", nargs="*", help="of the peers found, these programs")
    add("--tokenizer", type=Path, help="a tokenizer's folder, for the peers")
    add("--no-loadgen", action="store_true", help="the others alone")
    add("--no-alone", action="store_true", help="leave out what concerns loadgen alone")
    add("--out", type=Path, help="write the page here too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
