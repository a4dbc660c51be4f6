"""Every word that a report can print can be explained."""

from __future__ import annotations

import pytest

from loadgen.cli.__main__ import main
from loadgen.model import Layer, Outcome, Resource


@pytest.mark.parametrize("word", [*Layer, *Resource, *Outcome, "goodput", "ttft"])
def test_every_word_of_a_report_is_explained(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", word]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{word} (")
    assert "What it does not tell" in said
    assert max(map(len, said.splitlines())) <= 80


def test_an_unknown_word_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "queued_token"]) == 2
    assert "queued_tokens" in capsys.readouterr().err


def test_without_a_word_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    said = capsys.readouterr().out
    for word in [*Layer, *Resource, *Outcome]:
        assert word in said
