"""Flags and options are one table read both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import UsageError
from loadgen.sim.engine import EngineSpec, StepCost
from loadgen.standin.options import Faults, StandinOptions, parse, to_argv

NS = st.integers(0, 10**12)
COUNT = st.none() | st.integers(1, 1000)
CAP = st.none() | st.integers(0, 10**6)

everything = st.builds(
    StandinOptions,
    host=st.sampled_from(["127.0.0.1", "::1"]),
    port=st.integers(0, 65535),
    model=st.sampled_from(["stand-in", "other model"]),
    engine=st.builds(
        EngineSpec,
        max_num_seqs=st.integers(1, 8),
        max_num_batched_tokens=st.integers(8, 4096),
        max_model_len=st.integers(16, 512),
        block_tokens=st.integers(1, 32),
        kv_blocks=st.integers(512, 9999),
        max_num_queued_reqs=CAP,
        max_num_queued_tokens=CAP,
        cost=st.builds(
            StepCost,
            base_ns=NS,
            prefill_token_ns=NS,
            decode_seq_ns=NS,
            kv_token_ns=NS,
        ),
    ),
    front_ns=NS,
    front_token_ns=NS,
    speed=st.floats(0.01, 1000),
    faults=st.builds(
        Faults,
        refuse_every=COUNT,
        rate_limit_rps=st.none() | st.floats(0.1, 1000),
        loading_ns=st.none() | NS,
        delay_headers_ns=st.none() | NS,
        cut_after=COUNT,
        reset_after=COUNT,
        stall_after=COUNT,
        error_after=COUNT,
    ),
    parent_stdin=st.booleans(),
)


@given(everything)
def test_options_survive_the_way_through_flags(options: StandinOptions) -> None:
    assert parse(to_argv(options)) == options


def test_no_flag_is_the_default_and_needs_none() -> None:
    assert parse([]) == StandinOptions()
    assert to_argv(StandinOptions()) == []


def test_the_defaults_stay_on_this_machine_and_have_both_caps() -> None:
    options = StandinOptions()
    assert options.host == "127.0.0.1"
    assert options.engine.max_num_queued_reqs is not None
    assert options.engine.max_num_queued_tokens is not None


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["--speed", "0"], "speed"),
        (["--port", "70000"], "port"),
        (["--refuse-every", "0"], "refuse-every"),
        (["--cut-after", "-1"], "cut-after"),
        (["--rate-limit", "5"], "rate"),
        (["--loading", "3"], "duration"),
        (["--kv-blocks", "1"], "KV blocks"),
    ],
)
def test_what_cannot_be_is_named(argv: list[str], names: str) -> None:
    with pytest.raises(UsageError, match=names):
        parse(argv)
