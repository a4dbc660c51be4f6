"""Settings, choices and metrics are read from source text, whatever its style."""

from __future__ import annotations

import pytest

from loadgen.doctor.source.scan import Found, scan
from loadgen.doctor.source.values import Default, Ref, Unread
from tests.unit.doctor_sources import NEW, OLD


def scanned(text: str) -> Found:
    return scan("f.py", text.encode())


@pytest.mark.parametrize(
    ("body", "default"),
    [
        ("max_num_seqs: int = 256", 256),
        ("max_num_seqs = 256", 256),
        ("max_num_seqs: int = None  # type: ignore", None),
        ("max_num_seqs: int = Field(256, ge=1)", 256),
        ("max_num_seqs: int = Field(default=256)", 256),
        ("max_num_seqs: int = pydantic.Field(default=256)", 256),
        ("max_num_seqs: int = dataclasses.field(default=256)", 256),
        ("max_num_seqs: int = field(default=FIRST)", 64),
        ("D: ClassVar[int] = 7\n    max_num_seqs: int = D", 7),
        ("max_num_seqs: int = Other.max_num_seqs", Ref("Other", "max_num_seqs")),
        ("max_num_seqs: int = get_field(Other, 'a')", Ref("Other", "a")),
        ("max_num_seqs: int = 2 * MANY", Unread("2 * MANY")),
        ("max_num_seqs: int = field(default_factory=f)", Unread("field(default_fac")),
        ("A = B\n    B = A\n    max_num_seqs: int = A", Unread("A")),
        ("max_num_seqs: int = lots(" + "1, " * 99 + ")", Unread("lots(1, 1, 1, 1, 1")),
    ],
)
def test_a_default_is_read_from_any_style(body: str, default: Default) -> None:
    found = scanned(f"FIRST = SECOND\nSECOND = 64\nclass C:\n    {body}\n")
    [one] = found.definitions
    assert one.owner == "C"
    if isinstance(default, Unread):
        assert isinstance(one.default, Unread)
        assert one.default.text.startswith(default.text)
        assert len(one.default.text) <= 80
    else:
        assert one.default == default
        assert not one.required


def test_a_field_without_a_default_is_required() -> None:
    [one] = scanned("class C:\n    max_num_seqs: int\n").definitions
    assert one.required


def test_parameters_of_an_init_are_definitions_too() -> None:
    text = "class C:\n    def __init__(self, a, max_num_seqs=4, *, b=1): ...\n"
    [one] = scanned(text).definitions
    assert (one.owner, one.default) == ("C", 4)


@pytest.mark.parametrize(
    ("flag", "default"),
    [
        ('"--max-num-seqs", type=int, default=EngineArgs.max_num_seqs', "ref"),
        ('"--max-num-seqs", type=int, default=256', 256),
        ('"--max-num-seqs", type=int', None),
    ],
)
def test_a_flag_is_read(flag: str, default: object) -> None:
    [one] = scanned(f"parser.add_argument({flag})\n").definitions
    assert one.owner == ""
    if default == "ref":
        default = Ref("EngineArgs", "max_num_seqs")
    assert one.default == default


def test_a_table_by_usage_gives_what_a_server_takes() -> None:
    found = scan("a.py", NEW["vllm/engine/arg_utils.py"].encode())
    assert [choice.value for choice in found.choices] == [
        256,
        Unread("128 * world_size"),
    ]
    assert {choice.owner for choice in found.choices} == {"EngineArgs"}
    assert {choice.function for choice in found.choices} == {"get_batch_defaults"}


def test_choices_of_plain_numbers() -> None:
    found = scan("a.py", OLD["vllm/engine/arg_utils.py"].encode())
    assert [choice.value for choice in found.choices] == [1024, 256]


def test_metrics_with_kind_and_condition() -> None:
    found = scan("m.py", OLD["vllm/v1/metrics/loggers.py"].encode())
    kinds = {m.name: (m.kind, m.conditional) for m in found.metrics if m.registered}
    assert kinds == {
        "vllm:num_requests_running": ("gauge", False),
        "vllm:num_requests_waiting": ("gauge", False),
        "vllm:gpu_cache_usage_perc": ("gauge", False),
        "vllm:num_preemptions_total": ("counter", False),
        "vllm:num_requests_swapped": ("gauge", True),
    }


def test_a_name_that_is_only_compared_or_described_registers_nothing() -> None:
    text = '''
"""vllm:docstring"""
def f(m, log):
    if m.name == "vllm:compared" or m.name.startswith("vllm:begun"):
        log("vllm:told")
    return {m.name: "vllm:value"}
OPS = ["vllm::operator"]
'''
    assert scanned(text).metrics == []


def test_names_kept_in_constants_and_tables_are_named_but_not_registered() -> None:
    text = """
class Names:
    BYTES = "vllm:a"
    TIME: str = "vllm:b"
def f(self):
    specs = [("vllm:c", "What it is."), ("vllm:d", "And this.")]
    table = {"vllm:e": 1}
"""
    found = scanned(text).metrics
    assert [m.name[-1] for m in found] == list("abcde")
    assert not any(m.registered for m in found)


@pytest.mark.parametrize(
    "content",
    [b"def f(:\n", b"x = '\0'\n", b"\xff\xfe\n", b"(" * 5000 + b")" * 5000],
    ids=["syntax", "null", "encoding", "depth"],
)
def test_a_file_that_is_no_python_is_told(content: bytes) -> None:
    assert scan("f.py", content) == Found(unreadable=["f.py"])


def test_their_warnings_stay_theirs() -> None:
    assert scanned('PATTERN = "\\d"\nNAME = "vllm:x"\n').unreadable == []
