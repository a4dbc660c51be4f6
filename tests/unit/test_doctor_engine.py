"""Which engine answers, what bounds its queue, and what stands in front of it."""

from __future__ import annotations

import pytest

from loadgen.doctor.check import Status
from loadgen.doctor.server.caps import CAPS
from loadgen.doctor.server.reply import MODELS, NO_SUCH_PATH, SERVER_INFO, Reply
from tests.unit.doctor_replies import VLLM, VLLM_PAGE, look, models, reply


@pytest.mark.parametrize(
    ("replies", "found"),
    [
        (VLLM, "vLLM, 0.33.0"),
        (
            [
                reply(MODELS, models("sglang")),
                reply(SERVER_INFO, {"version": "0.5", "max_running_requests": 4}),
            ],
            "SGLang, 0.5",
        ),
        (
            [
                reply(MODELS, models("llamacpp"), server="llama.cpp"),
                reply("/props", {"total_slots": 4, "build_info": "b11434"}),
            ],
            "llama.cpp, b11434",
        ),
        (
            [
                reply(MODELS, models("library")),
                reply("/api/version", {"version": "0.33.0"}),
            ],
            "Ollama, 0.33.0",
        ),
        (
            [reply("/info", {"max_concurrent_requests": 128, "version": "3.3.7"})],
            "Text Generation Inference, 3.3.7",
        ),
        ([reply("/v2", {"name": "triton", "version": "2.60"})], "Triton, 2.60"),
    ],
)
def test_each_engine_is_known_by_what_it_says(
    replies: tuple[Reply, ...], found: str
) -> None:
    silent = reply(MODELS, {"object": "list", "data": [{"id": "m"}]})
    checks = look(*([silent, *replies]))
    assert checks["engine"].found == found
    assert checks["engine"].status is Status.OK


def test_a_server_that_says_nothing_of_itself_is_not_guessed() -> None:
    checks = look(reply(MODELS, models("me")))
    assert checks["engine"].status is Status.UNKNOWN
    assert checks["caps"].status is Status.UNKNOWN


def test_signs_that_disagree_are_told() -> None:
    checks = look(*VLLM, reply("/api/version", {"version": "1"}))
    assert checks["engine"].status is Status.WARN
    assert "Ollama" in checks["engine"].meaning


def test_the_stand_in_is_never_taken_for_vllm() -> None:
    checks = look(
        reply(MODELS, models("loadgen-stand-in"), server="loadgen-stand-in/0.1"),
        reply("/version", {"version": "0.1+stand-in"}),
        page=reply("/metrics", VLLM_PAGE),
    )
    assert checks["engine"].found == "loadgen's stand-in, 0.1+stand-in"
    assert checks["engine"].status is Status.OK


@pytest.mark.parametrize(
    ("replies", "status", "found"),
    [
        (VLLM, Status.UNKNOWN, "not shown over HTTP"),
        (
            [reply("/version", {"version": "0.8.5"})],
            Status.WARN,
            "0.8.5 has no such setting",
        ),
        (
            [
                reply("/version", {"version": "0.33.0"}),
                reply(
                    SERVER_INFO,
                    {
                        "vllm_config": {
                            "scheduler_config": {
                                "max_num_seqs": 4,
                                "max_num_queued_reqs": 8,
                                "max_num_queued_tokens": None,
                            }
                        }
                    },
                ),
            ],
            Status.OK,
            "max_num_seqs=4, max_num_queued_reqs=8, max_num_queued_tokens=None",
        ),
        (
            [reply(SERVER_INFO, {"vllm_config": {"scheduler_config": {}}})],
            Status.WARN,
            "max_num_queued_reqs=None",
        ),
        (
            [
                reply(
                    "/get_server_info",
                    {"max_running_requests": 9, "max_queued_requests": None},
                )
            ],
            Status.WARN,
            "max_queued_requests=None, max_running_requests=9",
        ),
        (
            [reply(SERVER_INFO, {"max_running_requests": 9, "max_queued_requests": 5})],
            Status.OK,
            "max_queued_requests=5, max_running_requests=9",
        ),
        (
            [reply("/props", {"total_slots": 4})],
            Status.WARN,
            "none: it never refuses; 4 slots",
        ),
        (
            [reply("/api/version", {"version": "0.33"})],
            Status.UNKNOWN,
            "OLLAMA_MAX_QUEUE (default 512)",
        ),
        (
            [reply("/info", {"max_concurrent_requests": 128})],
            Status.OK,
            "max_concurrent_requests=128",
        ),
    ],
)
def test_caps_as_far_as_they_show(
    replies: tuple[Reply, ...], status: Status, found: str
) -> None:
    silent = reply(MODELS, {"object": "list", "data": [{"id": "m"}]})
    check = look(*([silent, *replies]))["caps"]
    assert check.status is status
    assert found in check.found
    assert check.meaning
    assert (check.do is None) is (status is Status.OK)


def test_every_known_cap_tells_what_happens_when_full() -> None:
    assert "never refuses" in CAPS["llamacpp"].default
    assert CAPS["ollama"].default == "512"
    assert "load" in CAPS["ollama"].full
    assert CAPS["sglang"].setting == "--max-queued-requests"
    assert all(cap.full and cap.do for cap in CAPS.values())


@pytest.mark.parametrize(
    ("front", "word"),
    [
        ({"server": "envoy"}, "envoy"),
        ({"server": "nginx/1.27.0"}, "nginx"),
        ({"server": "uvicorn", "x_envoy_upstream_service_time": "3"}, "Envoy"),
        ({"server": "uvicorn", "via": "1.1 google"}, "1.1 google"),
        ({"server": "uvicorn", "x_litellm_version": "1"}, "LiteLLM"),
        ({"server": "uvicorn", "cf_ray": "1"}, "Cloudflare"),
        ({"server": "somebody"}, "here it is somebody"),
        ({}, "here it is none"),
    ],
)
def test_a_layer_in_front_shows_in_headers(front: dict[str, str], word: str) -> None:
    replies = [reply(r.path, r.body, r.status, **front) for r in VLLM]
    check = look(*replies)["gateway"]
    assert check.status is Status.WARN
    assert word in check.found


def test_a_server_without_a_name_is_a_weak_sign() -> None:
    check = look(*[reply(r.path, r.body, r.status) for r in VLLM])["gateway"]
    assert check.found.startswith("maybe one")


def test_endpoints_by_different_servers() -> None:
    check = look(*VLLM, reply("/info", b"", 404, server="hypercorn"))["gateway"]
    assert "differ in their Server header (hypercorn, uvicorn)" in check.found


def test_metrics_of_a_router() -> None:
    page = reply("/metrics", b"vllm_router_requests_total 1\n", server="uvicorn")
    assert "metrics are those of vllm-router" in look(*VLLM, page=page)["gateway"].found


@pytest.mark.parametrize(
    ("strange", "sure"),
    [
        (reply(NO_SUCH_PATH, b"404 page not found", 404, server="uvicorn"), False),
        (reply(NO_SUCH_PATH, b"hello", 200, server="uvicorn"), False),
    ],
)
def test_a_strange_404_is_a_weak_sign(strange: Reply, *, sure: bool) -> None:
    check = look(*VLLM[:3], strange)["gateway"]
    assert check.status is Status.WARN
    assert check.found.startswith("one" if sure else "maybe one")


def test_an_engine_alone_has_nothing_in_front() -> None:
    page = reply("/metrics", VLLM_PAGE, server="uvicorn")
    assert look(*VLLM, page=page)["gateway"].status is Status.OK
