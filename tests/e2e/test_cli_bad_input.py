"""Bad input gets one clear line and exit 2 or 4, before anything is sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.cli.__main__ import main

USAGE = [
    ("burst --rate 0/s", "above zero"),
    ("burst --rate -5/s", "not a rate"),
    ("burst --rate nan/s", "not a rate"),
    ("burst --rate inf", "not a rate"),
    ("burst --rate 20", "with its unit"),
    ("burst --rate 99999999999/s", "10,000,000/s"),
    ("burst --duration 0s", "above zero"),
    ("burst --duration 2", "with a unit"),
    ("burst --duration -2s", "not a duration"),
    ("burst --duration 9999d", "31 days"),
    ("burst --rate 1000000/s --duration 1h", "more than a schedule holds"),
    ("burst --workload no-such", "there are agent-burst"),
    ("burst --workload /no/such.toml", "No such file"),
    ("burst --arrivals sometimes", "sometimes"),
    ("burst --burstiness nan --arrivals gamma", "burstiness"),
    ("burst --burstiness 2 --arrivals constant", "burstiness"),
    ("burst --mix nobody=1", "nobody"),
    ("burst --mix rubbish", "group=share"),
    ("burst --max-tokens 0", "at least 1"),
    ("burst --max-tokens 10000001", "at most 10,000,000"),
    ("burst --max-tokens x", "--max-tokens"),
    ("burst --api telepathy", "there are openai-chat"),
    ("burst --extra-body [1]", "JSON object"),
    ("burst --extra-body {", "not JSON"),
    ("burst --slo ttft", "--slo"),
    ("burst --slo ttft=2", "ttft"),
    ("burst --slo speed=2s", "speed"),
    ("burst --idle-timeout 0s", "--idle-timeout"),
    ("burst --drain soon", "--drain"),
    ("burst --warmup -1", "--warmup"),
    ("burst --stamps guess", "auto nor user"),
    ("burst --nope", "--nope"),
    ("burst --url 127.0.0.1:8000", "no scheme"),
    ("burst --url ftp://127.0.0.1", "http or https"),
    ("burst --url http://", "host"),
    ("burst --url http://127.0.0.1:99999", "not a URL"),
    ("burst --url http://127.0.0.1:0", "port 0"),
    ("burst --url http://127.0.0.1:8000/v1", "already has a path"),
    ("burst --url http://me:secret@127.0.0.1:8000", "user or password"),
    ("burst --url http://me:secret@127.0.0.1:99999", "user or password"),
    ("burst --url me:secret@h", "user or password"),
    ("burst --url ftp://me:secret@h", "user or password"),
    ("burst --header nocolon", "Name: value"),
    ("burst --header Content-Length:5", "set by loadgen"),
    ("burst --api-key-env LOADGEN_NO_SUCH_VARIABLE", "not set"),
    ("burst --api-key-file /no/such/key", "No such file"),
    ("burst --api-key-file /dev/zero", "larger than"),
    ("burst --signatures /dev/zero", "larger than"),
    ("burst --server-log /dev/zero", "no regular file"),
    ("burst --workload jsonl:/dev/zero --time-unit s", "line 1 is longer"),
    (f"burst --rate {'9' * 5000}/s", "not a rate"),
    (f"burst --duration {'9' * 5000}s", "not a duration"),
    (f"burst --extra-body {'[' * 5000}", "nested too deep"),
    ("burst --model \udcff", "is not text"),
    ("burst --ca-file /no/such.pem", "no file"),
    ("burst --tokenizer /no/such.json", "no file"),
    ("burst --endpoint v1/chat", "begin with /"),
    ("replay /no/such/schedule", "No such file"),
    ("replay /dev/null", "no regular file"),
    ("report /no/such/run", "does not exist"),
    ("plan --out /no/such/folder/x", "No such file"),
    ("conquer", "conquer"),
]


@pytest.mark.parametrize(("line", "said"), USAGE, ids=[line[:60] for line, _ in USAGE])
def test_one_clear_line_and_exit_2(
    line: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split(" ")) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("loadgen: error: ")
    assert err.count("\n") == 1
    assert said in err
    assert "secret" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("burst --url http://127.0.0.1:1", "cannot connect to 127.0.0.1:1"),
        ("burst --url http://no-such-host.invalid", "cannot resolve"),
    ],
)
def test_an_unreachable_server_is_exit_4(
    line: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split(" ")) == 4
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
