"""Envoy in front of an engine: one listener for each way a gateway says no."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.engines.install import installed
from tests.engines.servers import Launch, Server, free_port, running

__all__ = ["AccessLine", "Envoy", "envoy"]

TYPES = "type.googleapis.com/envoy.extensions"
LOG_FIELDS = {
    "listener": "",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "status": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
}
RATE_LIMIT_FILTER = "envoy.filters.http.local_ratelimit"
ENVOY_START_S = 20
# What the circuit breaker lets through at once, and the rate limit in a minute.
BREAKER_REQUESTS = 3
RATE_LIMIT_REQUESTS = 4
LOG_FLUSH_MS = 100
ROUTE_TIMEOUT = "2s"


class AccessLine(NamedTuple):
    """What Envoy itself says it did with one request."""

    listener: str
    request_id: str
    status: int
    flags: str
    details: str


class Envoy(NamedTuple):
    """A running Envoy; each url leads to the engine by another listener."""

    server: Server
    plain_url: str
    breaker_url: str
    rate_limit_url: str
    timeout_url: str
    access_log: Path

    def lines(self, request_ids: Iterable[str]) -> dict[str, AccessLine]:
        """What Envoy says of these requests; waits a moment until it said all."""
        wanted = set(request_ids)
        deadline = time.monotonic() + 20 * LOG_FLUSH_MS / 1000
        while True:
            text = self.access_log.read_text()
            told = [AccessLine(**json.loads(line)) for line in text.splitlines()]
            found = {t.request_id: t for t in told if t.request_id in wanted}
            if len(found) == len(wanted) or time.monotonic() > deadline:
                return found
            time.sleep(LOG_FLUSH_MS / 1000)


@contextmanager
def envoy(upstream_port: int, folder: Path) -> Iterator[Envoy]:
    """Run Envoy in front of an engine on a loopback port, up or not."""
    install = installed("proxies")
    folder.mkdir(parents=True, exist_ok=True)
    ports = {name: free_port() for name in ("plain", "breaker", "rate", "timeout")}
    admin_port = free_port()
    access_log = folder / f"envoy-{admin_port}-access.log"
    config = folder / f"envoy-{admin_port}.json"
    config.write_text(
        json.dumps(configuration(ports, admin_port, upstream_port, access_log))
    )
    argv = [str(install / "envoy"), "-c", str(config), "--concurrency", "1"]
    argv += ["--log-level", "warning", "--disable-hot-restart"]
    argv += ["--file-flush-interval-msec", str(LOG_FLUSH_MS)]
    launch = Launch("envoy", argv, admin_port, ENVOY_START_S, "/ready")
    with running(launch, folder) as server:
        url = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        yield Envoy(
            server,
            url["plain"],
            url["breaker"],
            url["rate"],
            url["timeout"],
            access_log,
        )


def configuration(
    ports: dict[str, int], admin_port: int, upstream_port: int, access_log: Path
) -> dict[str, Any]:
    to_engine = route("/", "engine")
    breaker = {"max_requests": BREAKER_REQUESTS, "max_retries": 0}
    routes = {
        "plain": [to_engine],
        "breaker": [route("/", "guarded")],
        "rate": [route("/v1/chat", "engine") | rate_limited(), to_engine],
        "timeout": [route("/", "engine", timeout=ROUTE_TIMEOUT)],
    }
    return {
        "admin": {"address": address(admin_port)},
        "static_resources": {
            "listeners": [
                listener(name, port, access_log, routes[name])
                for name, port in ports.items()
            ],
            "clusters": [
                cluster("engine", upstream_port),
                cluster("guarded", upstream_port)
                | {"circuit_breakers": {"thresholds": [breaker]}},
            ],
        },
    }


def route(prefix: str, cluster_name: str, timeout: str = "0s") -> dict[str, Any]:
    return {
        "match": {"prefix": prefix},
        "route": {"cluster": cluster_name, "timeout": timeout},
    }


def address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def cluster(name: str, port: int) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": address(port)}}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [endpoint]}],
        },
    }


def rate_limit(**more: Any) -> dict[str, Any]:
    kind = f"{TYPES}.filters.http.local_ratelimit.v3.LocalRateLimit"
    return {"@type": kind, "stat_prefix": "rate_limit"} | more


def rate_limited() -> dict[str, Any]:
    """The limit, for a route: what is asked before a run must not use it up."""
    always = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}
    limit = rate_limit(
        token_bucket={
            "max_tokens": RATE_LIMIT_REQUESTS,
            "tokens_per_fill": RATE_LIMIT_REQUESTS,
            "fill_interval": "60s",
        },
        filter_enabled=always,
        filter_enforced=always,
        enable_x_ratelimit_headers="DRAFT_VERSION_03",
    )
    return {"typed_per_filter_config": {RATE_LIMIT_FILTER: limit}}


def extension(name: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "typed_config": config}


def listener(
    name: str, port: int, access_log: Path, routes: list[dict[str, Any]]
) -> dict[str, Any]:
    log = {
        "@type": f"{TYPES}.access_loggers.file.v3.FileAccessLog",
        "path": str(access_log),
        "log_format": {"json_format": LOG_FIELDS | {"listener": name}},
    }
    last = {"@type": f"{TYPES}.filters.http.router.v3.Router"}
    network = f"{TYPES}.filters.network.http_connection_manager.v3"
    manager = {
        "@type": f"{network}.HttpConnectionManager",
        "stat_prefix": name,
        "generate_request_id": True,
        "preserve_external_request_id": True,
        "access_log": [extension("envoy.access_loggers.file", log)],
        "http_filters": [
            extension(RATE_LIMIT_FILTER, rate_limit()),
            extension("envoy.filters.http.router", last),
        ],
        "route_config": {
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]
        },
    }
    chain = extension("envoy.filters.network.http_connection_manager", manager)
    return {
        "name": name,
        "address": address(port),
        "filter_chains": [{"filters": [chain]}],
    }
