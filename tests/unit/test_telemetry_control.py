"""What is watched: flags, whose key goes where, and which GPUs are the server's."""

from __future__ import annotations

import pytest

from loadgen.control.target import parse_target
from loadgen.control.telemetry import (
    WhatToWatch,
    gpu_status,
    is_same_origin,
    parse_watch,
)
from loadgen.errors import UsageError


def test_flags_are_read() -> None:
    assert parse_watch((), (), "auto") == WhatToWatch()
    assert parse_watch(("none",), ("a",), "off") == WhatToWatch(
        metrics=False, series=("a",), gpu="off"
    )
    urls = ("http://a:1/metrics", "https://[::1]:2/stats/prometheus")
    assert parse_watch(urls, (), "on") == WhatToWatch(metrics_urls=urls, gpu="on")


@pytest.mark.parametrize(
    ("urls", "series", "gpu"),
    [
        (("ftp://a/metrics",), (), "auto"),
        (("a:1/metrics",), (), "auto"),
        (("http://",), (), "auto"),
        (("http://a:bad/metrics",), (), "auto"),
        (("http://[::1/metrics",), (), "auto"),
        (("http://user:hunter2@a/metrics",), (), "auto"),
        (("ftp://user:hunter2@a:bad/metrics",), (), "auto"),
        (("none", "http://a/metrics"), (), "auto"),
        ((), ("a{",), "auto"),
        ((), (), "yes"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    urls: tuple[str, ...], series: tuple[str, ...], gpu: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_watch(urls, series, gpu)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("http://host/metrics", True),
        ("http://host:80/other", True),
        ("https://host/metrics", False),
        ("http://host:8000/metrics", False),
        ("http://host.evil/metrics", False),
    ],
)
def test_a_key_is_for_the_targets_own_origin(url: str, same: bool) -> None:
    assert is_same_origin(url, parse_target("http://host")) is same


def test_gpus_here_are_looked_at_for_a_server_that_is_here() -> None:
    assert gpu_status("auto", "127.0.0.1") == "on"
    assert gpu_status("auto", "192.0.2.1") == "the server is on another machine"
    assert gpu_status("on", "192.0.2.1") == "on"
    assert gpu_status("off", "127.0.0.1") == "off"
