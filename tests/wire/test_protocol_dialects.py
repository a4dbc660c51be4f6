"""The other dialects: whole streams, errors, and what a request asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadgen.errors import UsageError
from loadgen.model import Ending, Outcome, ServerError
from loadgen.plan.prompts import Prompt
from loadgen.units import NS_PER_MS
from loadgen.wire.facts import Facts
from loadgen.wire.framing import Event
from loadgen.wire.protocols import PROTOCOLS
from loadgen.wire.protocols.delta import MALFORMED
from loadgen.wire.reading import Reading

PROMPT = Prompt("g", None, "Hello", 8, 1)


def sse(*events: Any, named: bool = False) -> list[bytes]:
    """One read an event; a dict's ``type`` as the event's name if asked."""
    reads = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        name = f"event: {event['type']}\n" if named else ""
        reads.append(f"{name}data: {data}\n\n".encode())
    return reads


def lines(*objects: Any) -> list[bytes]:
    return [json.dumps(one).encode() + b"\n" for one in objects]


def read(api: str, reads: list[bytes], *, stream: bool = True) -> Facts:
    """Each read 10 ms after the one before."""
    reading = Reading(PROTOCOLS[api], stream=stream, keep_text=True)
    reading.head(200, [], 0)
    for number, data in enumerate(reads, 1):
        reading.body(data)
        reading.end_of_read(number * 10 * NS_PER_MS, True)
    return reading.close(Ending.COMPLETE, len(reads) * 10 * NS_PER_MS)


def tokens_ms(facts: Facts) -> list[float]:
    return [at_ns / NS_PER_MS for at_ns in facts.token_ns]


ANTHROPIC = sse(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "model": "c",
            "usage": {
                "input_tokens": 5,
                "cache_read_input_tokens": 20,
                "output_tokens": 1,
            },
        },
    },
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": ""},
    },
    {"type": "ping"},
    {
        "type": "content_block_delta",
        "delta": {"type": "thinking_delta", "thinking": "Hm"},
    },
    {
        "type": "content_block_delta",
        "delta": {"type": "signature_delta", "signature": "x"},
    },
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "text", "text": ""},
    },
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}},
    {
        "type": "content_block_delta",
        "delta": {"type": "input_json_delta", "partial_json": "{"},
    },
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 3},
    },
    {"type": "message_stop"},
    named=True,
)


def test_anthropic_stream() -> None:
    facts = read("anthropic", ANTHROPIC)
    assert facts.outcome is Outcome.OK
    assert tokens_ms(facts) == [40, 80, 90]
    assert facts.first_answer_ns == 80 * NS_PER_MS
    assert (facts.prompt_tokens, facts.output_tokens) == (25, 3)
    assert facts.output_tokens_source == "usage"
    assert (facts.model, facts.response_id) == ("c", "msg_1")
    assert (facts.text, facts.finish_reason, facts.done) == ("Hi", "end_turn", True)
    assert facts.findings == []


def test_anthropic_cut_before_its_end() -> None:
    facts = read("anthropic", ANTHROPIC[:8])
    assert facts.outcome is Outcome.TRUNCATED
    assert facts.output_tokens_source == "continuous_usage"


@pytest.mark.parametrize(
    ("before", "outcome"), [(1, "in_stream_reject"), (8, "in_stream_error")]
)
def test_anthropic_overload_in_the_stream(before: int, outcome: str) -> None:
    error = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    }
    facts = read("anthropic", ANTHROPIC[:before] + sse(error, named=True))
    assert facts.outcome == outcome
    assert facts.error == ServerError("Overloaded", "overloaded_error")


def test_anthropic_whole() -> None:
    body = {
        "type": "message",
        "id": "msg_1",
        "model": "c",
        "content": [
            {"type": "thinking", "thinking": "Hm"},
            {"type": "text", "text": "Hi"},
        ],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 5, "output_tokens": 3},
    }
    facts = read("anthropic", [json.dumps(body).encode()], stream=False)
    assert (facts.outcome, facts.text, facts.finish_reason) == (
        "ok",
        "Hi",
        "max_tokens",
    )
    assert (facts.prompt_tokens, facts.output_tokens) == (5, 3)


RESPONSES = sse(
    {"type": "response.created", "response": {"id": "r1", "model": "m", "usage": None}},
    {"type": "response.output_item.added", "item": {}},
    {"type": "response.reasoning_summary_text.delta", "delta": "Hm"},
    {"type": "response.output_text.delta", "delta": ""},
    {"type": "response.output_text.delta", "delta": "Hi"},
    {"type": "response.function_call_arguments.delta", "delta": "{"},
    {
        "type": "response.completed",
        "response": {
            "id": "r1",
            "status": "completed",
            "usage": {
                "input_tokens": 8,
                "output_tokens": 4,
                "output_tokens_details": {"reasoning_tokens": 1},
            },
        },
    },
    named=True,
)


def test_responses_stream() -> None:
    facts = read("openai-responses", RESPONSES)
    assert (facts.outcome, facts.finish_reason, facts.text) == ("ok", "completed", "Hi")
    assert tokens_ms(facts) == [30, 40, 50, 60]
    assert facts.first_answer_ns == 40 * NS_PER_MS
    assert (facts.model, facts.response_id) == ("m", "r1")
    assert facts.findings == []


@pytest.mark.parametrize(
    "last",
    [
        {"type": "error", "code": "server_error", "message": "m"},
        {
            "type": "response.failed",
            "response": {"error": {"code": "server_error", "message": "m"}},
        },
    ],
)
def test_responses_failing(last: dict[str, Any]) -> None:
    facts = read("openai-responses", RESPONSES[:5] + sse(last, named=True))
    assert facts.outcome is Outcome.IN_STREAM_ERROR
    assert facts.error is not None
    assert (facts.error.message, facts.error.code) == ("m", "server_error")


def test_responses_cut_short_by_the_asked_length() -> None:
    last = {
        "type": "response.incomplete",
        "response": {"incomplete_details": {"reason": "max_output_tokens"}},
    }
    facts = read("openai-responses", RESPONSES[:5] + sse(last, named=True))
    assert (facts.outcome, facts.finish_reason) == ("ok", "max_output_tokens")


def test_responses_whole() -> None:
    body = {
        "id": "r1",
        "object": "response",
        "status": "completed",
        "error": None,
        "output": [
            {"type": "reasoning", "content": None},
            {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
        ],
        "usage": {"input_tokens": 8, "output_tokens": 4},
    }
    facts = read("openai-responses", [json.dumps(body).encode()], stream=False)
    assert (facts.outcome, facts.text, facts.output_tokens) == ("ok", "Hi", 4)


def ollama(text: str, **more: Any) -> dict[str, Any]:
    return {
        "model": "m",
        "message": {"role": "assistant", "content": text},
        "done": False,
        **more,
    }


def test_ollama_stream() -> None:
    last = ollama(
        "", done=True, done_reason="length", prompt_eval_count=26, eval_count=3
    )
    thinking = ollama("")
    thinking["message"]["thinking"] = "Hm"
    facts = read("ollama", lines(thinking, ollama("Hi"), last))
    assert (facts.outcome, facts.finish_reason, facts.text) == ("ok", "length", "Hi")
    assert tokens_ms(facts) == [10, 20]
    assert facts.first_answer_ns == 20 * NS_PER_MS
    assert (facts.prompt_tokens, facts.output_tokens) == (26, 3)


def test_ollama_s_older_servers_say_only_that_they_are_done() -> None:
    facts = read("ollama", lines(ollama("Hi"), {"model": "m", "done": True}))
    assert facts.outcome is Outcome.OK


def test_ollama_whole_and_relabelled_as_sse() -> None:
    whole = ollama("Hi you", done=True, done_reason="stop", eval_count=2)
    facts = read("ollama", lines(whole), stream=False)
    assert (facts.outcome, facts.text) == ("ok", "Hi you")
    assert read("ollama", sse(ollama("Hi"), whole)).outcome is Outcome.OK


def test_ollama_refusing() -> None:
    busy = "server busy, please try again.  maximum pending requests exceeded"
    assert read("ollama", lines({"error": busy})).outcome is Outcome.IN_STREAM_REJECT


def sglang(text: str, tokens: int, reason: Any = None) -> dict[str, Any]:
    meta = {
        "id": "r1",
        "finish_reason": reason,
        "prompt_tokens": 7,
        "completion_tokens": tokens,
    }
    return {"text": text, "meta_info": meta}


def test_sglang_repeats_the_text_so_far() -> None:
    stop = {"type": "length", "length": 4}
    facts = read(
        "sglang",
        sse(
            sglang("", 0),
            sglang("Hi", 1),
            sglang("Hi", 2),
            sglang("Hi you", 3),
            sglang("Hi you", 3),
            sglang("Hi you!", 4, stop),
            "[DONE]",
        ),
    )
    assert (facts.outcome, facts.text, facts.finish_reason) == (
        "ok",
        "Hi you!",
        "length",
    )
    assert tokens_ms(facts) == [20, 30, 40, 60]
    assert (facts.prompt_tokens, facts.output_tokens) == (7, 4)
    assert facts.findings == []


def test_sglang_set_to_send_pieces() -> None:
    reads = sse(
        sglang("Hi", 1), sglang(" you", 2), sglang(" yo", 3, {"type": "stop"}), "[DONE]"
    )
    assert read("sglang", reads).text == "Hi you yo"


def test_sglang_refusing_by_an_abort() -> None:
    why = {"type": "abort", "status_code": 503, "message": "The request queue is full."}
    facts = read("sglang", sse(sglang("", 0, why), "[DONE]"))
    assert facts.outcome is Outcome.IN_STREAM_REJECT
    assert facts.error == ServerError("The request queue is full.", "abort", 503)
    assert facts.finish_reason == "abort"


def test_sglang_whole() -> None:
    facts = read("sglang", lines(sglang("Hi", 1, {"type": "stop"})), stream=False)
    assert (facts.outcome, facts.text) == ("ok", "Hi")


LLAMACPP_LAST = {
    "content": "",
    "stop": True,
    "stop_type": "limit",
    "tokens_evaluated": 5,
    "tokens_predicted": 2,
    "model": "m",
}


def test_llamacpp_stream() -> None:
    pieces = ({"content": text, "stop": False} for text in ("Hi", " you"))
    facts = read("llamacpp", sse(*pieces, LLAMACPP_LAST))
    assert (facts.outcome, facts.text, facts.finish_reason) == ("ok", "Hi you", "limit")
    assert tokens_ms(facts) == [10, 20]
    assert (facts.prompt_tokens, facts.output_tokens, facts.model) == (5, 2, "m")
    assert facts.findings == []


def test_llamacpp_whole_and_older() -> None:
    whole = {**LLAMACPP_LAST, "content": "Hi", "stop_type": None, "stopped_eos": True}
    facts = read("llamacpp", lines(whole), stream=False)
    assert (facts.outcome, facts.text, facts.finish_reason) == ("ok", "Hi", "eos")


def test_llamacpp_failing_by_a_field_named_error() -> None:
    reads = [b'error: {"code":500,"message":"no KV","type":"server_error"}\n\n']
    facts = read("llamacpp", sse({"content": "Hi", "stop": False}) + reads)
    assert facts.outcome is Outcome.IN_STREAM_ERROR
    assert facts.error == ServerError("no KV", "server_error", 500)


def tgi(text: str, *, special: bool = False, **more: Any) -> dict[str, Any]:
    return {"token": {"id": 1, "text": text, "special": special}, **more}


def test_tgi_stream() -> None:
    details = {"finish_reason": "eos_token", "generated_tokens": 3, "input_length": 9}
    last = tgi("</s>", special=True, generated_text="Hi you", details=details)
    facts = read("tgi", sse(tgi("Hi"), tgi(" you"), last))
    assert (facts.outcome, facts.text, facts.finish_reason) == (
        "ok",
        "Hi you",
        "eos_token",
    )
    assert tokens_ms(facts) == [10, 20, 30]
    assert (facts.prompt_tokens, facts.output_tokens) == (9, 3)
    assert facts.findings == []


def test_tgi_refusing_and_failing() -> None:
    busy = {"error": "Model is overloaded", "error_type": "overloaded"}
    dead = {"error": "CUDA out of memory", "error_type": "generation"}
    assert read("tgi", sse(busy)).outcome is Outcome.IN_STREAM_REJECT
    assert read("tgi", sse(tgi("Hi"), dead)).outcome is Outcome.IN_STREAM_ERROR


@pytest.mark.parametrize("api", PROTOCOLS)
def test_no_dialect_takes_another_thing_for_its_own(api: str) -> None:
    protocol = PROTOCOLS[api]
    for data in (b"{}", b'{"x":1}', b"nonsense", b"7", b"[]"):
        assert protocol.decode(Event(b"", data)) == MALFORMED, data
        assert protocol.decode_whole(data) == MALFORMED, data
    assert protocol.decode(Event(b"error", b"m")).error == ServerError("m")


@pytest.mark.parametrize(
    ("api", "extra", "expected"),
    [
        (
            "anthropic",
            {"temperature": 0},
            {
                "model": "m",
                "stream": True,
                "temperature": 0,
                "max_tokens": 8,
                "metadata": {"user_id": "t"},
                "messages": [{"role": "user", "content": "Hello"}],
            },
        ),
        (
            "openai-responses",
            {},
            {
                "model": "m",
                "stream": True,
                "max_output_tokens": 8,
                "user": "t",
                "input": "Hello",
            },
        ),
        (
            "ollama",
            {"options": {"seed": 1}, "keep_alive": -1},
            {
                "model": "m",
                "stream": True,
                "keep_alive": -1,
                "options": {"seed": 1, "num_predict": 8},
                "messages": [{"role": "user", "content": "Hello"}],
            },
        ),
        (
            "sglang",
            {"sampling_params": {"temperature": 0}},
            {
                "stream": True,
                "sampling_params": {"temperature": 0, "max_new_tokens": 8},
                "text": "Hello",
            },
        ),
        ("llamacpp", {}, {"stream": True, "n_predict": 8, "prompt": "Hello"}),
        ("tgi", {}, {"parameters": {"max_new_tokens": 8}, "inputs": "Hello"}),
    ],
)
def test_requests(api: str, extra: dict[str, Any], expected: dict[str, Any]) -> None:
    encode = PROTOCOLS[api].encoder("m", stream=True, extra_body=extra)
    assert json.loads(encode(PROMPT._replace(tenant="t"))) == expected


@pytest.mark.parametrize("api", sorted(PROTOCOLS.keys() - {"anthropic"}))
def test_no_length_asked_leaves_it_to_the_server(api: str) -> None:
    encode = PROTOCOLS[api].encoder("m", stream=True, extra_body={})
    body = encode(PROMPT._replace(max_tokens=None))
    assert isinstance(json.loads(body), dict)
    assert b"8" not in body


def test_what_a_dialect_cannot_do_is_said() -> None:
    with pytest.raises(UsageError, match="max-tokens"):
        PROTOCOLS["anthropic"].encoder("m", stream=True, extra_body={})(
            PROMPT._replace(max_tokens=None)
        )
    with pytest.raises(UsageError, match="streams"):
        PROTOCOLS["tgi"].encoder("m", stream=False, extra_body={})
    with pytest.raises(UsageError, match="options"):
        PROTOCOLS["ollama"].encoder("m", stream=True, extra_body={"options": 3})


def test_keys_travel_in_the_dialect_s_own_header() -> None:
    assert PROTOCOLS["anthropic"].auth("k") == ("x-api-key", "k")
    assert PROTOCOLS["openai-chat"].auth("k") == ("authorization", "Bearer k")
