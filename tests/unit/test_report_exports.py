"""Each number in an export is the report's, and each text in it is only text."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from loadgen.analysis.stats import spread
from loadgen.analysis.summary import Group, Summary, encode
from loadgen.errors import RunDirError, UsageError
from loadgen.model import TokenSource
from loadgen.report.exports.kinds import RUN_EXPORTS
from loadgen.report.exports.markdown import markdown
from loadgen.report.exports.run import Exported
from tests.report_runs import LONG, SHORT, exported, mixed
from tests.runs import answered, record, refused

TIMES = (
    *("ttft_s", "ttft_from_sent_s", "ttft_answer_s"),
    *("tpot_s", "e2e_s", "time_to_reject_s"),
)


def written(kind: str, run: Exported) -> bytes:
    out = io.BytesIO()
    RUN_EXPORTS[kind](run, out)
    return out.getvalue()


def rows_of(run: Exported) -> list[dict[str, str]]:
    text = written("csv", run).decode()
    assert text.count("\r\n") >= text.count("\n") - text.count("\n\n")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_json_is_the_summary() -> None:
    run = exported()
    assert written("json", run) == encode(run.summary)


def test_csv_has_a_row_a_request_and_adds_up_to_the_summary() -> None:
    run = exported()
    rows, summary = rows_of(run), run.summary
    assert [int(row["seq"]) for row in rows] == list(range(40))
    assert Counter(row["outcome"] for row in rows) == summary.outcomes
    assert sum(row["good"] == "true" for row in rows) == summary.goodput.good
    causes = Counter(
        (row["layer"], row["limiting_resource"]) for row in rows if row["layer"]
    )
    assert causes == {
        (row.layer.value, row.limiting_resource.value): row.count
        for row in summary.rejections
        if row.layer != "unknown"
    }
    assert {row["basis"] for row in rows} == {"measured"}


@pytest.mark.parametrize("group", [None, SHORT, LONG])
@pytest.mark.parametrize("name", TIMES)
def test_times_in_csv_give_the_quantiles_of_the_report(
    name: str, group: str | None
) -> None:
    run = exported()
    values = [
        float(row[name])
        for row in rows_of(run)
        if row[name] and group in (None, row["group"])
    ]
    latency = (
        run.summary.latency if group is None else run.summary.groups[group].latency
    )
    said = getattr(latency, name)
    again = spread(np.array(values), digits=9)
    assert (again.n, again.p50, again.p95, again.p99, again.max) == pytest.approx(
        (said.n, said.p50, said.p95, said.p99, said.max)
    )


def test_what_is_not_known_is_an_empty_cell() -> None:
    first, *_ = rows_of(exported([refused(0)]))
    assert first["ttft_s"] == first["output_tokens"] == first["tenant"] == ""
    assert first["status"] == "503"


def test_a_text_is_no_formula_to_a_spreadsheet() -> None:
    refusals = [row for row in rows_of(exported()) if row["error_message"]]
    assert refusals[0]["error_message"] == '\'=1+1 <b>"busy"</b>'
    (negative,) = rows_of(
        exported([record(0, group="-1+1", scheduled_ns=5, sent_ns=0)])
    )
    assert negative["group"] == "'-1+1"
    assert negative["send_lag_s"] == "-0.000000005", "a number stays one"


def test_a_record_that_was_not_judged_has_no_row() -> None:
    twice = [answered(0, events_ms=[5]), answered(0, events_ms=[9]), refused(1)]
    run = exported(twice, offered=2)
    assert [row["ttft_s"] for row in rows_of(run)] == ["0.005", ""]


def test_records_that_changed_since_are_refused() -> None:
    run = replace(exported(), records=mixed()[:-1])
    with pytest.raises(RunDirError, match="changed while they were read"):
        rows_of(run)


def test_parquet_holds_the_same_and_the_stamps_of_tokens() -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    run = exported()
    table = pq.read_table(io.BytesIO(written("parquet", run)))
    assert table.schema.metadata[b"loadgen.basis"] == b"measured"
    for got, said in zip(table.to_pylist(), rows_of(run), strict=True):
        for name, text in said.items():
            assert _same(got[name], text), name
    stamps = [one.token_ns for one in mixed()]
    assert table.column("token_ns").to_pylist() == stamps


def _same(value: Any, text: str) -> bool:
    if value is None or isinstance(value, bool):
        return text == {None: "", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return value == text.removeprefix("'")
    return float(text) == pytest.approx(value)


def test_parquet_without_its_package_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'loadgen\[parquet\]'"):
        written("parquet", exported())


def suite_of(run: Exported) -> ElementTree.Element:
    root = ElementTree.fromstring(written("junit", run))
    (suite,) = root
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
    assert int(suite.attrib["skipped"]) == len(suite.findall("testcase/skipped"))
    return suite


def failures(run: Exported) -> list[str]:
    return [
        case.attrib["name"]
        for case in suite_of(run).findall("testcase")
        if case.find("failure") is not None
    ]


def test_junit_without_a_gate_fails_nothing_of_a_valid_run() -> None:
    suite = suite_of(exported())
    assert suite.attrib["failures"] == "0"
    assert suite.attrib["skipped"] == "4", "three gates, and the engine's counters"


def test_junit_fails_a_gate_that_was_missed() -> None:
    run = exported(gate=0.95)
    assert failures(run)[0] == "goodput is at least 95%"
    (said,) = [failure.attrib["message"] for failure in suite_of(run).iter("failure")][
        :1
    ]
    good = run.summary.goodput
    assert said.startswith(f"{good.good} of {good.offered} ")


def test_junit_passes_a_gate_that_was_met() -> None:
    assert failures(exported([answered(0, events_ms=[5])], gate=1.0)) == []


def test_an_invalid_run_passes_no_gate() -> None:
    run = exported([answered(0, events_ms=[5])], gate=0.5, interrupted=True)
    assert failures(run) == ["the run is valid", "goodput is at least 50%"]


@pytest.mark.parametrize(("difference", "failed"), [(0, 0), (3, 1), (None, 0)])
def test_junit_tells_of_the_engine_s_counters(
    difference: int | None, failed: int
) -> None:
    told = {"difference": difference, "finding": "32 <refused>"}
    suite = suite_of(exported(reconciliation=told))
    assert int(suite.attrib["failures"]) == failed


def samples_of(run: Exported) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    text = written("prometheus", run).decode()
    samples = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]
    found = {(s.name, frozenset(s.labels.items())): s.value for s in samples}
    assert len(found) == len(samples), "a series twice is refused by who reads it"
    return found


def test_prometheus_says_the_numbers_of_the_report() -> None:
    run = exported()
    found, summary = samples_of(run), run.summary

    def value(name: str, **labels: str) -> float:
        return found[f"loadgen_{name}", frozenset(labels.items())]

    assert value("run_valid") == 1
    assert value("offered_rate_rps") == summary.offered.rate_rps
    parts: dict[str, Summary | Group] = {"": summary, **summary.groups}
    for group, part in parts.items():
        assert value("good_requests", group=group) == part.goodput.good
        assert value("goodput_ratio", group=group) == part.goodput.ratio
        assert value("goodput_rate_rps", group=group) == part.goodput.rate_rps
        for outcome, count in part.outcomes.items():
            assert value("outcome_requests", group=group, outcome=outcome) == count
        ttft = part.latency.ttft_s
        for level, seconds in (("0.5", ttft.p50), ("0.95", ttft.p95)):
            assert value("ttft_seconds", group=group, quantile=level) == seconds
    lost = sum(v for (name, _), v in found.items() if name == "loadgen_lost_requests")
    assert lost == sum(row.count for row in summary.rejections)


def test_prometheus_has_no_line_for_what_is_not_known() -> None:
    names = {name for name, _ in samples_of(exported([refused(0)]))}
    assert "loadgen_ttft_seconds" not in names
    assert "loadgen_goodput_ratio" in names


def test_prometheus_survives_the_names_of_groups() -> None:
    groups = ['a"\\\n}', "x" * 500, "x" * 501]
    records = [
        answered(seq, events_ms=[5], group=group) for seq, group in enumerate(groups)
    ]
    assert any(
        dict(labels).get("group") == 'a"\\ }'
        for _, labels in samples_of(exported(records))
    )


def bench_of(run: Exported) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(written("vllm-bench", run))
    return found


def test_vllm_bench_has_its_keys_and_the_report_s_numbers() -> None:
    run = exported()
    found, summary = bench_of(run), run.summary
    for name in ("ttft", "tpot", "itl", "e2el"):
        for prefix in ("mean", "median", "std", "p99"):
            assert isinstance(found[f"{prefix}_{name}_ms"], float)
    assert found["num_prompts"] == found["completed"] + found["failed"] == 40
    assert found["completed"] == summary.outcomes["ok"]
    assert found["duration"] == summary.throughput.wall_s
    assert found["request_throughput"] == summary.throughput.ok_rps_over_wall
    good = found["request_goodput"] * found["duration"]
    assert good == pytest.approx(summary.goodput.good)
    written_tokens = summary.output_tokens.by_source[TokenSource.USAGE].total
    assert found["total_output_tokens"] == written_tokens
    assert found["p95_tpot_ms"] == pytest.approx(_ms(summary.latency.tpot_s.p95))
    assert found["median_itl_ms"] == pytest.approx(_ms(summary.latency.itl_s.p50))
    both = found["p95_e2el_including_client_queue_ms"]
    assert both == pytest.approx(_ms(summary.latency.e2e_s.p95))
    assert found["loadgen"] == json.loads(encode(summary))


def _ms(seconds: float | None) -> float:
    assert seconds is not None
    return seconds * 1000


def test_vllm_bench_counts_from_the_send_and_tells_the_queue_apart() -> None:
    late = answered(0, events_ms=[100, 120], sent_ns=30_000_000)
    found = bench_of(exported([late]))
    assert found["mean_ttft_ms"] == 70
    assert found["mean_client_queue_time_ms"] == 30
    assert found["mean_e2el_ms"] == 90
    assert found["mean_e2el_including_client_queue_ms"] == 120
    assert found["latencies"] == pytest.approx([0.09])
    assert found["queue_times"] == pytest.approx([0.03])


def test_vllm_bench_has_null_and_not_zero_for_what_is_not_known() -> None:
    found = bench_of(exported([refused(0)]))
    assert found["mean_ttft_ms"] is None
    assert found["completed"] == 0
    unknown = answered(0, events_ms=[5, 9], prompt_tokens=None)
    assert bench_of(exported([unknown]))["total_input_tokens"] is None


def test_vllm_bench_mixes_no_two_counts() -> None:
    two = [
        answered(0, events_ms=[5], output_tokens_source=TokenSource.USAGE),
        answered(1, events_ms=[5], output_tokens_source=TokenSource.ESTIMATE),
    ]
    assert bench_of(exported(two))["total_output_tokens"] is None


def test_markdown_says_the_numbers_of_the_report() -> None:
    run = exported()
    text = written("markdown", run).decode()
    good = run.summary.goodput
    assert text.startswith("### by-hand, offered to ")
    assert f"| all | {good.good} | {good.offered} |" in text
    assert "**Verdict: VALID" in text
    for line in text.splitlines():
        if line.startswith("|"):
            bars = len(re.findall(r"(?<!\\)\|", line))
            assert bars >= 3
    assert text.count("<details>") == text.count("</details>") == 1


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a|b", r"a\|b"),
        ("<b>`x`</b>", r"\<b\>\`x\`\</b\>"),
        ("*_[x](y)_*", r"\*\_\[x\](y)\_\*"),
        ("# title", r"\# title"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("$x$ &amp; ~~y~~", r"\$x\$ \&amp; \~\~y\~\~"),
        ("the p95-value (2 s): 3.5", "the p95-value (2 s): 3.5"),
    ],
)
def test_text_is_no_markdown(hostile: str, shown: str) -> None:
    assert markdown(hostile) == shown


def test_nobody_is_called_and_nothing_linked() -> None:
    shown = markdown("@admin see https://evil.example or www.evil.example #12")
    assert not re.search(r"@\w|https://|www\.\w|(?<!\\)#\d", shown)
