"""What is told of a server: sums, ratios, versions, missing and renamed series."""

from __future__ import annotations

import msgspec
import pytest

from loadgen.telemetry.series import CounterSeen, GaugeSeen, HistogramSeen, version_of
from tests.runs import answered, record, refused
from tests.scrapes import beside, both, failed, scrape, seen

TWO_RANKS = """\
vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:num_requests_running{engine="1",model_name="m"} 4
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.2
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.9
vllm:num_preemptions_total{engine="0",model_name="m"} 5
vllm:num_preemptions_total{engine="1",model_name="m"} 7
"""


def codes(told: object) -> list[str]:
    return [finding.code for finding in told.findings]  # type: ignore[attr-defined]


def test_levels_are_summed_over_engines_and_ratios_are_not() -> None:
    series = seen([scrape(TWO_RANKS)]).series
    running, usage = series["running"], series["kv_usage"]
    assert isinstance(running, GaugeSeen)
    assert isinstance(usage, GaugeSeen)
    assert (running.peak, usage.peak) == (7, 0.9)
    assert running.by == {"engine=0": 3, "engine=1": 4}


def test_counts_are_summed_and_told_by_the_labels_that_differ() -> None:
    later = TWO_RANKS.replace("} 5\n", "} 15\n").replace("} 7\n", "} 8\n")
    grew = seen(both(TWO_RANKS, later)).series["preemptions"]
    assert isinstance(grew, CounterSeen)
    assert grew.delta == 11
    assert grew.by == {"engine=0": 10, "engine=1": 1}


def test_a_peak_has_its_instant_and_gaps_are_no_zeros() -> None:
    pages = [scrape(f"llamacpp:requests_deferred {n}\n", n) for n in (1, 9, 9, 2)]
    told = seen([*pages[:2], failed(5, "no answer within 2 s"), *pages[2:]])
    waiting = told.series["waiting"]
    assert isinstance(waiting, GaugeSeen)
    assert (waiting.peak, waiting.at_ns, waiting.n) == (9, 9_000_000_000, 4)
    assert waiting.mean == 5.25


def test_a_restart_between_two_looks_is_seen_by_any_counter() -> None:
    page = "vllm:prompt_tokens_total {}\nvllm:generation_tokens_total {}\n"
    looks = [
        scrape(page.format(100, 100), -1, "before"),
        scrape(page.format(300, 150), 1),
        scrape(page.format(50, 20), 2),
        scrape(page.format(400, 500), 3, "after"),
    ]
    told = seen(looks)
    assert told.restarts == 1
    tokens = told.series["prompt_tokens"]
    assert isinstance(tokens, CounterSeen)
    assert (tokens.delta, tokens.resets) == (200 + 400, 1)


def test_a_new_start_time_is_a_restart_though_no_counter_fell() -> None:
    page = "vllm:prompt_tokens_total {}\nprocess_start_time_seconds {}\n"
    assert seen(both(page.format(5, 100), page.format(9, 200))).restarts == 1


def test_an_old_server_is_read_by_its_old_names() -> None:
    told = seen([scrape("vllm:gpu_cache_usage_perc 0.5\n")], version="0.8.5")
    usage = told.series["kv_usage"]
    assert isinstance(usage, GaugeSeen)
    assert (usage.series, usage.peak) == ("vllm:gpu_cache_usage_perc", 0.5)
    assert "vllm:kv_cache_usage_perc" not in told.missing
    (renamed,) = told.renamed
    assert (renamed.new, renamed.gone) == ("vllm:kv_cache_usage_perc", "0.12")
    assert "series_renamed" in codes(told)


@pytest.mark.parametrize(
    ("version", "missing"),
    [("0.33.0", True), ("0.40.1rc2", True), ("0.8.5", False), (None, True)],
)
def test_a_series_is_missing_only_where_the_version_has_it(
    version: str | None, missing: bool
) -> None:
    told = seen([scrape("vllm:num_requests_running 0\n")], version=version)
    assert ("vllm:admission_rejections_total" in told.missing) is missing
    assert "admission_rejections" not in told.series
    assert "series_missing" in codes(told)


def test_what_appears_with_its_first_count_is_nothing_so_far() -> None:
    page = "tgi_queue_size 0\ntgi_batch_current_size 0\n"
    told = seen(both(page, page))
    rejections = told.series["admission_rejections"]
    assert isinstance(rejections, CounterSeen)
    assert (rejections.delta, rejections.assumed) == (0, True)
    assert told.missing == []


def test_what_depends_on_settings_is_neither_missing_nor_zero() -> None:
    told = seen(both("vllm:num_requests_running 0\n", "vllm:num_requests_running 0\n"))
    assert "prefix_hits" not in told.series
    assert not any("prefix" in name for name in told.missing)
    assert told.prefix_hit_rate is None


def test_a_histogram_tells_of_the_run_in_seconds() -> None:
    page = (
        'nv_inference_first_response_histogram_ms_bucket{{le="100"}} {0}\n'
        'nv_inference_first_response_histogram_ms_bucket{{le="+Inf"}} {0}\n'
        "nv_inference_first_response_histogram_ms_count {0}\n"
        "nv_inference_first_response_histogram_ms_sum {1}\n"
    )
    told = seen(both(page.format(10, 99_999), page.format(30, 101_999)))
    ttft = told.series["ttft_s"]
    assert isinstance(ttft, HistogramSeen)
    assert ttft.count == 20
    assert ttft.mean == pytest.approx(0.1)
    assert ttft.p50 == pytest.approx(0.05)


def test_a_page_of_nobody_known_is_said_to_be_one() -> None:
    told = seen([scrape("go_threads 5\n", phase="before")])
    assert told.status == "no known series"
    assert codes(told) == ["no_metrics"]


def test_a_series_that_was_asked_for_is_followed_by_its_own_name() -> None:
    asked = ["go_threads"]
    told = seen([scrape("go_threads 5\n", asked=asked)], asked=asked)
    threads = told.series["go_threads"]
    assert isinstance(threads, GaugeSeen)
    assert threads.peak == 5
    assert (told.status, told.engine) == ("ok", None)


def test_a_scrape_in_which_all_failed_tells_why() -> None:
    told = seen([failed(-1, "not let in (401)", "before")])
    assert told.status == "not let in (401)"
    assert told.scrapes is not None
    assert told.scrapes.failures == {"not let in (401)": 1}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("0.33.0", (0, 33, 0)),
        ("v1.2", (1, 2)),
        ("0.12.0rc1", (0, 12, 0)),
        ("0.1.0+stand-in", (0, 1, 0)),
        ("main", ()),
        ("b11434", ()),
    ],
)
def test_versions_compare_as_numbers(text: str, numbers: tuple[int, ...]) -> None:
    assert version_of(text) == numbers


VLLM = (
    'vllm:request_success_total{{engine="{rank}",finished_reason="stop"}} {ok}\n'
    'vllm:request_success_total{{engine="{rank}",finished_reason="error"}} {error}\n'
)
REFUSALS = 'vllm:admission_rejections_total{{reason="max_num_queued_reqs"}} {}\n'


def test_the_account_is_made_of_deltas_over_all_ranks() -> None:
    page = "".join(VLLM.format(rank=rank, ok=5, error=1) for rank in (0, 1))
    later = VLLM.format(rank=0, ok=6, error=2) + VLLM.format(rank=1, ok=7, error=1)
    records = [
        *(answered(seq, events_ms=[1]) for seq in range(3)),
        *(refused(seq) for seq in (3, 4)),
    ]
    samples = both(page + REFUSALS.format(8), later + REFUSALS.format(10))
    account = beside(samples, records).reconciliation
    assert account is not None
    assert account["engine"] == {
        "success": 3,
        "admission_rejections": 2,
        "aborted": None,
        "failed": 1,
    }
    assert (account["status"], account["difference"]) == ("exact", 0)
    assert "2 processes" in account["finding"]


def test_without_both_ends_there_is_no_account() -> None:
    page = VLLM.format(rank=0, ok=5, error=0) + REFUSALS.format(0)
    for samples in (
        [scrape(page, -1, "before"), failed(9, "no connection", "after")],
        [failed(-1, "no connection", "before"), scrape(page, 9, "after")],
    ):
        assert beside(samples, [record()]).reconciliation is None


def test_what_stands_before_the_engine_is_not_added_to_it() -> None:
    engine = VLLM.format(rank=0, ok=1, error=0) + REFUSALS.format(0)
    gateway = "envoy_cluster_upstream_rq_pending_overflow {}\n"
    samples = [
        *both(VLLM.format(rank=0, ok=0, error=0) + REFUSALS.format(0), engine),
        *(
            msgspec.structs.replace(one, url=1)
            for one in both(gateway.format(1), gateway.format(4))
        ),
    ]
    account = beside(
        samples, [answered(events_ms=[1])], metrics=["http://e", "http://g"]
    )
    assert account.reconciliation is not None
    assert account.reconciliation["difference"] == 0
    assert account.telemetry is not None
    (other,) = account.telemetry["others"]
    assert (other["title"], other["layer"]) == ("Envoy", "gateway")
    assert other["series"]["admission_rejections"]["delta"] == 3
