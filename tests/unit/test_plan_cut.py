"""A schedule dealt out and read again share by share."""

from __future__ import annotations

import io
from collections.abc import Callable

import msgspec
import pytest

from loadgen.errors import UsageError
from loadgen.plan.cut import cut
from loadgen.plan.schedule import Asked, Entry, Header, load, seal


def sealed(requests: int) -> bytes:
    header = Header(
        api="openai-chat",
        path="/",
        model="m",
        stream=True,
        workload="w",
        seed=0,
        arrivals={"process": "given", "duration_ns": requests},
        asked=Asked(rate_rps=1.0, duration_s=1.0),
        groups=["a", "b"],
        created_by="test",
    )
    entries = (
        Entry(i, "ab"[i % 2], None, i, 7, msgspec.Raw(b'{"n": %d }' % i))
        for i in range(requests)
    )
    out = io.BytesIO()
    seal(header, entries, out)
    return out.getvalue()


@pytest.mark.parametrize(("requests", "shares"), [(1, 1), (10, 3), (9, 3), (3, 3)])
def test_a_share_is_the_stripe_of_the_whole(requests: int, shares: int) -> None:
    """The same requests under the same numbers, byte for byte, and sealed."""
    whole = sealed(requests)
    outs = [io.BytesIO() for _ in range(shares)]
    cut(io.BytesIO(whole), outs)
    for part, out in enumerate(outs):
        stripe = load(whole, stripe=(part, shares))
        share = load(out.getvalue(), stripe=(part, shares), cut=True)
        assert share.requests == len(share) == len(stripe)
        assert share.duration_ns == stripe.duration_ns
        for place in range(len(stripe)):
            assert share.seq(place) == stripe.seq(place)
            assert share.body(place) == stripe.body(place)
            assert share.entry(place) == stripe.entry(place)


def test_one_share_of_all_is_the_schedule_itself() -> None:
    whole, out = sealed(5), io.BytesIO()
    cut(io.BytesIO(whole), [out])
    assert out.getvalue() == whole


def test_a_share_without_requests_can_be_read() -> None:
    outs = [io.BytesIO(), io.BytesIO()]
    cut(io.BytesIO(sealed(1)), outs)
    assert len(load(outs[1].getvalue(), stripe=(1, 2), cut=True)) == 0


def test_a_damaged_share_is_noticed() -> None:
    out = io.BytesIO()
    cut(io.BytesIO(sealed(5)), [out])
    with pytest.raises(UsageError, match="changed"):
        load(out.getvalue().replace(b'"n": 3', b'"n": 4'), cut=True)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(b'"n": 3', b'"n": 4'),
        lambda data: data[: data.rindex(b'{"seal"')],
        lambda data: data[:-10] + b"\n",
    ],
    ids=["edited", "unsealed", "torn"],
)
def test_a_damaged_whole_is_not_dealt_out(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(UsageError):
        cut(io.BytesIO(damage(sealed(5))), [io.BytesIO(), io.BytesIO()])
