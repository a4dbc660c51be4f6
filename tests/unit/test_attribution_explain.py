"""Every word of a report can be asked about."""

from __future__ import annotations

import pytest

from loadgen.analysis.explain import find_topic, load_topics
from loadgen.errors import UsageError
from loadgen.model import RESOURCE_UNIT, Layer, Outcome, Resource

TOPICS = load_topics()


@pytest.mark.parametrize("word", [*Layer, *Resource, *Outcome])
def test_every_word_has_its_topic(word: str) -> None:
    assert find_topic(word).name == word


@pytest.mark.parametrize("resource", set(Resource) - {Resource.UNKNOWN})
def test_units_agree_with_the_report(resource: Resource) -> None:
    assert TOPICS[resource].unit == RESOURCE_UNIT[resource]


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_is_short_and_whole(name: str) -> None:
    topic = TOPICS[name]
    assert topic.means
    assert topic.hides
    assert topic.kind in {
        "layer",
        "resource",
        "outcome",
        "metric",
        "resource, outcome",
    }
    assert len(topic.means) + len(topic.hides) < 500


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("ENGINE-ADMISSION", "engine_admission"),
        ("queued tokens", "queued_tokens"),
        ("ttft_s", "ttft"),
        ("time_to_reject_s", "time_to_reject"),
    ],
)
def test_as_people_type_it(typed: str, name: str) -> None:
    assert find_topic(typed).name == name


def test_a_word_misspelt_gets_the_nearest() -> None:
    with pytest.raises(UsageError, match="engine_admission"):
        find_topic("engine_admision")


def test_nothing_near() -> None:
    with pytest.raises(UsageError, match="see loadgen explain"):
        find_topic("zzzzzz")
