"""The cases handed to us as specification: one file a kind, one line a case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Case = dict[str, Any]


def cases(kind: str) -> dict[str, Case]:
    """All cases of a kind by their id."""
    lines = (Path(__file__).parent / f"{kind}.jsonl").read_text("utf-8").splitlines()
    return {case["id"]: case for case in map(json.loads, lines)}
