"""For how long an idle connection counts as alive."""

from __future__ import annotations

import pytest

from loadgen.issue.pool import expiry_ns
from loadgen.units import NS_PER_S


@pytest.mark.parametrize(
    ("keep_alive_s", "more", "kept_s"),
    [
        (None, None, 4.0),  # the server says nothing: our own bound
        (60, None, 4.0),
        (5, None, 4.0),  # a second before its own
        (3, None, 2.0),
        (1, None, 0.5),
        (0, None, 0.0),
        (60, 5, 4.0),
        (60, 1, 4.0),
        (60, 0, 0.0),  # it takes no more
    ],
)
def test_expiry(keep_alive_s: int | None, more: int | None, kept_s: float) -> None:
    found = expiry_ns(100, 4 * NS_PER_S, keep_alive_s, more)
    assert found == 100 + int(kept_s * NS_PER_S)
