"""llama.cpp's own HTTP server; runs in the Python that the recipe installs.

usage: llamacpp_server.py MODEL PORT CONTEXT_TOKENS SLOTS
"""

from __future__ import annotations

import sys
import time

import xllamacpp  # type: ignore[import-not-found]


def main() -> None:
    model, port, context_tokens, slots = sys.argv[1:]
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {"gemma3-270m"}
    params.hostnames = ["127.0.0.1"]
    params.port = int(port)
    params.n_ctx = int(context_tokens)
    params.n_parallel = int(slots)
    params.endpoint_metrics = True
    params.endpoint_slots = True
    params.warmup = True
    params.fit_params = False
    # All layers at full length: loading then takes time in proportion to the
    # context, and a test can look at the server while it loads.
    params.swa_full = True
    # Two threads on two shared cores spin on each other: 1 token/s instead of 40.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    sys.stderr.write(f"listening at {server.listening_address}\n")
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
