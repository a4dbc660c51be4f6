"""The packaged vocabulary, and how a file of it is read."""

from __future__ import annotations

import pytest

from loadgen.analysis.counters import ENGINE_COUNTERS
from loadgen.errors import UsageError
from loadgen.telemetry.vocabulary import (
    Selector,
    base_name,
    load_vocabulary,
    parse_vocabulary,
)

VOCABULARY = load_vocabulary()


def test_every_engine_of_the_plan_has_its_series() -> None:
    assert set(VOCABULARY.engines) >= {
        *("vllm", "sglang", "llamacpp", "tgi", "triton", "trtllm", "dynamo"),
        *("envoy", "vllm_router", "litellm"),
    }


@pytest.mark.parametrize("name", VOCABULARY.engines)
def test_an_engines_series_begin_with_its_prefix(name: str) -> None:
    engine = VOCABULARY.engines[name]
    for series in engine.series.values():
        assert engine.has(series.selector.name), series.name
    for old, rename in engine.renamed.items():
        assert engine.has(old)
        assert not rename.to or engine.has(rename.to)
        assert base_name(old) != base_name(rename.to)


@pytest.mark.parametrize("name", sorted(ENGINE_COUNTERS))
def test_the_account_and_the_vocabulary_name_the_same_series(name: str) -> None:
    engine = VOCABULARY.engines.get(name)
    known = ENGINE_COUNTERS[name]
    for term in ("success", "admission_rejections", "aborted"):
        series = None if engine is None else engine.series.get(term)
        counter = getattr(known, term)
        assert (series is None) == (counter is None), term
        if series is not None and counter is not None:
            assert series.selector.name == Selector.parse(counter).name


def test_each_engine_is_known_by_its_page() -> None:
    for name, engine in VOCABULARY.engines.items():
        names = {series.selector.name for series in engine.series.values()}
        assert [one.name for one in VOCABULARY.recognise(names)] == [name]


def test_an_engine_comes_before_what_stands_in_front_of_it() -> None:
    page = {"envoy_cluster_upstream_rq_active", "vllm:num_requests_running"}
    assert [one.name for one in VOCABULARY.recognise(page)] == ["vllm", "envoy"]


def test_in_the_run_histograms_are_left_out() -> None:
    assert "vllm:time_to_first_token_seconds" in VOCABULARY.known
    assert "vllm:time_to_first_token_seconds" not in VOCABULARY.brief
    assert "vllm:num_requests_running" in VOCABULARY.brief


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        ("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc", "0.12"),
        ("vllm:gpu_prefix_cache_hits_total", "vllm:prefix_cache_hits", "0.12"),
        (
            "sglang:time_per_output_token_seconds",
            "sglang:inter_token_latency_seconds",
            None,
        ),
    ],
)
def test_old_names_lead_to_new_ones(old: str, new: str, gone: str | None) -> None:
    rename = VOCABULARY.rename_of(old)
    assert rename is not None
    assert (rename.to, rename.gone) == (new, gone)
    assert new in rename.words(old)


@pytest.mark.parametrize(
    ("text", "labels", "takes"),
    [
        ("m", {}, True),
        ('m{a="1"}', {"a": "1"}, True),
        ('m{a="1"}', {"a": "2"}, False),
        ('m{a="1"}', {}, False),
        ('m{a=""}', {}, True),
        ('m{a!="1"}', {}, True),
        ('m{a!="1",b="2"}', {"a": "1", "b": "2"}, False),
        ('m{a!="1",b="2"}', {"a": "3", "b": "2"}, True),
    ],
)
def test_a_selector_takes_rows(text: str, labels: dict[str, str], takes: bool) -> None:
    selector = Selector.parse(text)
    assert selector.takes(labels) is takes
    assert Selector.parse(selector.text) == selector


@pytest.mark.parametrize("text", ["", "m{", "m{a}", "m{a=1}", 'm{a="1"b="2"}', "{}"])
def test_what_names_no_series_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="names no series"):
        Selector.parse(text)


ENGINE = '[engines.x]\ntitle=""\nlayer="engine"\nprefixes=["x_"]\nread=""\n'


@pytest.mark.parametrize(
    "text",
    [
        "terms = 3",
        "[terms]\na = {kind = 'pie', unit = ''}\n[engines]\n",
        f"[terms]\n{ENGINE}[engines.x.series]\nwaiting = 'x_w'\n",
        f"[terms]\n{ENGINE}series = {{}}\nextra = 1\n",
        "not toml",
    ],
)
def test_a_wrong_file_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="series file"):
        parse_vocabulary(text)
