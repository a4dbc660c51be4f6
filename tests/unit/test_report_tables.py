"""The tables: each number where it belongs, nothing that was not judged."""

from __future__ import annotations

from loadgen.report.facts import (
    Client,
    Facts,
    Fairness,
    Goodput,
    Group,
    Latency,
    Lengths,
    Offered,
    Rejection,
    Spread,
    Tenant,
    Tokens,
    Warmup,
)
from loadgen.report.health import client_table
from loadgen.report.losses import layers_table, tenants_table
from loadgen.report.table import Table
from loadgen.report.tables import goodput_table, latency_table, outcome_table


def grid(table: Table) -> list[list[str]]:
    return [[row.label, *row.cells] for row in table.rows]


def test_outcomes_in_their_order_with_shares() -> None:
    facts = Facts(
        basis="measured",
        outcomes={"unsent": 0, "new_kind": 5, "http_reject": 5, "ok": 17_990},
        offered=Offered(requests=18_000),
        groups={
            "a": Group(offered=17_000, outcomes={"ok": 17_000}),
            "b": Group(offered=1_000, outcomes={"ok": 990, "http_reject": 5}),
        },
    )
    assert grid(outcome_table(facts)) == [
        ["offered", "", "18,000   100%", "17,000 100%", "1,000 100%"],
        ["answered in full", "ok", "17,990  99.9%", "17,000 100%", "990  99%"],
        ["refused by HTTP status", "http_reject", "5 0.028%", "0   0%", "5 0.5%"],
        ["new_kind", "new_kind", "5 0.028%", "0   0%", "0   0%"],
    ]


def test_a_single_group_gets_no_column_and_many_are_cut() -> None:
    one = Facts(basis="measured", outcomes={"ok": 1}, groups={"a": Group(offered=1)})
    assert [column.heading for column in outcome_table(one).columns] == [
        "outcome",
        "all",
    ]
    groups = {f"g{n}": Group(offered=n) for n in range(20)}
    many = Facts(basis="measured", outcomes={"ok": 190}, groups=groups)
    table = outcome_table(many)
    assert [column.heading for column in table.columns[2:]] == [
        f"g{n}" for n in range(8, 20)
    ]
    assert "8 smaller groups more in summary.json" in table.notes


def test_notes_say_what_was_asked_and_what_was_warm_up() -> None:
    facts = Facts(
        basis="measured",
        outcomes={"ok": 38},
        offered=Offered(requests=38, rate_rps=19.0, asked={"rate_rps": 20.0}),
        warmup=Warmup(requests=3),
    )
    assert outcome_table(facts).notes == (
        "20/s was asked for; this schedule's draw came to 19/s",
        "warm-up: 3 requests before these, in no number here",
    )


def test_times_share_a_unit_within_a_family_and_star_what_is_late() -> None:
    latency = Latency(
        ttft_s=Spread(n=2, p50=0.957, p95=2.0, p99=2.001),
        itl_s=Spread(n=200, n_missing=50, p50=0.0251, p95=0.03, p99=0.031),
    )
    group = Group(latency=Latency(ttft_s=Spread(n=1, p50=0.05, p95=0.05, p99=0.05)))
    facts = Facts(
        basis="measured",
        outcomes={"ok": 2, "http_reject": 1},
        offered=Offered(requests=3),
        latency=latency,
        groups={"a": group, "b": Group()},
        goodput=Goodput(slo={"ttft_s": 2.0}),
    )
    table = latency_table(facts)
    assert grid(table) == [
        ["to the first token (TTFT)", "s", "2", "0.96 ", "2.00 ", "2.00*", "2 s"],
        ["a", "s", "1", "0.05 ", "0.05 ", "0.05 ", ""],
        ["b", "s", "0", "- ", "- ", "- ", ""],
        ["between two tokens (ITL)", "ms", "200", "25.1 ", "30.0 ", "31.0 ", "-"],
    ]
    assert "* over the target" in table.notes
    assert any(note.startswith("1 request had no first token") for note in table.notes)
    assert any("50 of 250 gaps" in note for note in table.notes)


def test_the_first_answer_token_is_shown_where_it_differs() -> None:
    latency = Latency(
        ttft_s=Spread(n=1, p50=0.1), ttft_answer_s=Spread(n=1, p50=4.0, p95=4.0)
    )
    table = latency_table(Facts(basis="measured", outcomes={"ok": 1}, latency=latency))
    assert [row.label for row in table.rows] == [
        "to the first token (TTFT)",
        "to the answer's first token",
    ]


def test_goodput_names_its_targets_and_its_scope() -> None:
    whole = Goodput(
        slo={"ttft_s": 2.0, "tpot_s": 0.05},
        good=6,
        offered=40,
        ci95=(0.0706, 0.2907),
        rate_rps=3.0,
        attainment={"ttft_s": 0.2, "tpot_s": 0.000003},
    )
    table = goodput_table(Facts(basis="measured", outcomes={"ok": 8}, goodput=whole))
    assert grid(table) == [["all", "6", "40", "15%", "7.1% to 29%", "3"]]
    assert table.columns[3].heading == "95% interval, this schedule"
    assert table.notes == (
        "good: answered in full with TTFT <= 2 s, TPOT <= 50 ms",
        "each target alone: TTFT <= 2 s 20%, TPOT <= 50 ms 0.0003%",
    )


def test_without_a_target_every_whole_answer_is_good() -> None:
    table = goodput_table(Facts(basis="measured", outcomes={"ok": 8}))
    assert grid(table) == [["all", "0", "0", "-", "-", "-"]]
    assert "no target was given" in table.notes[0]


def test_a_cause_with_its_evidence() -> None:
    row = Rejection(
        layer="engine_admission",
        limiting_resource="queued_tokens",
        unit="tokens",
        count=3,
        by_outcome={"http_reject": 3},
        by_group={"short": 1, "long": 2},
        statuses={"none": 1, "503": 2},
        accepted="no",
        evidence=["signature x", "status 503", 'says "busy"'],
        confidence="high",
        prompt_tokens=Lengths(
            by_source={
                "tokenize": Tokens(min=20, per_request=Spread(n=3, max=4000.0)),
            }
        ),
    )
    facts = Facts(
        basis="measured",
        outcomes={"http_reject": 3},
        rejections=[row],
        groups={"short": Group(), "long": Group()},
    )
    table = layers_table(facts)
    assert table is not None
    assert grid(table) == [
        ["engine admission: queued_tokens", "3", "100%", "no", "high"]
    ]
    assert table.rows[0].below == (
        "limit counted in tokens; HTTP status 503 x 2, none x 1",
        "of these long 2, short 1; prompts of 20 to 4,000 tokens by the server's "
        "tokenizer",
        'evidence: says "busy"; signature x',
    )


def test_a_cause_without_a_resource_says_what_happened() -> None:
    rows = [
        Rejection(
            layer="client",
            limiting_resource="other",
            count=1,
            by_outcome={"unsent": 1},
            statuses={"none": 1},
        ),
        Rejection(
            layer="unknown",
            limiting_resource="unknown",
            count=2,
            by_outcome={"reset": 1, "stalled": 1},
        ),
        Rejection(layer="later", limiting_resource="unknown", count=1),
    ]
    table = layers_table(Facts(basis="measured", outcomes={}, rejections=rows))
    assert table is not None
    assert [(row.label, row.below[0]) for row in table.rows] == [
        ("our own side: never sent", "no HTTP answer"),
        ("unknown", "connection reset 1, fell silent 1; HTTP status not known"),
        ("later", "HTTP status not known"),
    ]
    assert layers_table(Facts(basis="measured", outcomes={"ok": 1})) is None


def test_tenants() -> None:
    fairness = Fairness(
        tenants={
            "small": Tenant(offered=25, refused=0, good=25, offered_share=0.25),
            "big": Tenant(
                offered=75, refused=30, good=45, offered_share=0.75, refused_share=1.0
            ),
        },
        jain_index=0.94,
    )
    table = tenants_table(Facts(basis="measured", outcomes={}, fairness=fairness))
    assert table is not None
    assert grid(table) == [
        ["big", "75", "75%", "30", "100%", "45", "60%"],
        ["small", "25", "25%", "0", "-", "25", "100%"],
    ]
    assert table.notes == (
        "Jain's index 0.94: 1 when all fare alike, 0.5 when one gets everything",
    )
    assert tenants_table(Facts(basis="measured", outcomes={})) is None


def test_the_client_on_itself() -> None:
    client = Client(
        send_lag_s=Spread(n=1, p99=0.00017, max=0.0004),
        client_lag_s=Spread(n=1, p99=0.0001, max=0.0002),
        retries=0,
        receive_clock="kernel",
        coalesced_share=0.0003,
        connections={"opened": 14, "reused": 26, "peak_in_flight": 14},
        stopped="disk full",
    )
    table = client_table(Facts(basis="measured", outcomes={}, client=client))
    assert grid(table) == [
        ["sent late (send lag), p99", "170 us", "max 400 us"],
        ["of it the client's doing", "100 us", "max 200 us, the rest was connecting"],
        ["event loop late, p99", "-", "max -"],
        ["retries", "0", "each request is sent once"],
        ["receive clock", "kernel", "stamped when the bytes arrived"],
        ["inexact token times", "0.03%", "of all tokens"],
        ["connections", "14", "26 reused, at most 14 in flight"],
        ["stopped early", "", "disk full"],
    ]


def test_a_client_that_told_nothing_shows_dashes_not_zeros() -> None:
    table = client_table(Facts(basis="measured", outcomes={}))
    assert [row.cells[0] for row in table.rows] == ["-", "-", "-", "-"]
