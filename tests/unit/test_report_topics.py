"""The words of a report, explained on a screen."""

from __future__ import annotations

from loadgen.analysis.explain import Topic, load_topics
from loadgen.report.escape import cells
from loadgen.report.screen import Screen
from loadgen.report.topics import topic_list, topic_text

TOPIC = Topic(
    name="queued_things",
    kind="resource",
    unit="things",
    means="The limit counts things: all of them. Whatever they are.",
    moves=("engine --max-queued-things",),
    hides="Their size ≤ 3.",
)


def test_one_topic() -> None:
    assert topic_text(TOPIC, Screen(utf8=False)) == (
        "queued_things (resource, counted in things)\n"
        "  The limit counts things: all of them. Whatever they are.\n"
        "\n"
        "What moves it\n"
        "  - engine --max-queued-things\n"
        "\n"
        "What it does not tell\n"
        "  Their size <= 3.\n"
    )


def test_the_list_gives_the_gist_of_each() -> None:
    assert topic_list([TOPIC], Screen()) == (
        "Resources: what ran out\n"
        "  queued_things         The limit counts things\n"
        "\n"
        "loadgen explain WORD says it in full\n"
    )


def test_every_topic_there_is_fits_a_narrow_screen() -> None:
    screen = Screen(width=60, utf8=False)
    topics = load_topics()
    texts = [topic_list(topics.values(), screen)]
    texts += [topic_text(topic, screen) for topic in topics.values()]
    for text in texts:
        assert text.isascii()
        assert all(cells(line) <= 60 for line in text.splitlines())
    assert all(f"  {name} " in texts[0] for name in topics)
