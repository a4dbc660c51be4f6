"""An engine's log joined with the run by request id, and by client port."""

from __future__ import annotations

from loadgen.analysis.evidence import EngineLine, NotInEngineLog
from loadgen.analysis.evidence_server import join, parse_server_log
from loadgen.model import Ending, Outcome, RequestRecord

LOG = """\
(APIServer pid=7) INFO 11-30 20:48:12 [logger.py:39] Received request chatcmpl-lg-1-0: \
prompt: 'x', params: SamplingParams(n=1)
(APIServer pid=7) INFO 11-30 20:48:12 [async_llm.py:590] Added request \
chatcmpl-lg-1-0-0a1b2c3d.
INFO:     127.0.0.1:47458 - "POST /v1/chat/completions HTTP/1.1" 200 OK
(APIServer pid=7) INFO 11-30 20:48:12 [logger.py:39] Received request chatcmpl-lg-1-1: x
INFO 11-30 20:48:12 [async_llm.py:610] Request chatcmpl-lg-1-1 failed \
(bad request): The engine is currently busy and cannot accept new requests.
Traceback (most recent call last):
INFO:     127.0.0.1:47460 - "POST /v1/chat/completions HTTP/1.1" 200 OK
INFO:     127.0.0.1:47462 - "POST /v1/chat/completions HTTP/1.1" 503 Service Unavailable
INFO:     127.0.0.1:47470 - "GET /metrics HTTP/1.1" 200 OK
INFO 11-30 20:48:13 [async_llm.py:600] Request chatcmpl-lg-1-0 aborted.
(APIServer pid=7) INFO 11-30 20:48:13 [logger.py:39] Received request chatcmpl-else-3: x
INFO:     127.0.0.1:47464 - "POST /v1/chat/completions HTTP/1.1" 200 OK
INFO:     127.0.0.1:47464 - "POST /v1/chat/completions HTTP/1.1" 503 Service Unavailable
"""


def record(seq: int, port: int | None, status: int | None) -> RequestRecord:
    return RequestRecord(
        seq=seq,
        request_id=f"lg-1-{seq}",
        group="g",
        scheduled_ns=seq,
        sent_ns=seq,
        status=status,
        local_port=port,
        outcome=Outcome.HTTP_REJECT,
        ending=Ending.COMPLETE,
    )


RECORDS = [
    record(0, 47458, 200),
    record(1, 47460, 200),
    record(2, 47462, 503),
    record(3, 47464, 200),
    record(4, 47464, 503),
    record(5, 50000, None),
]
IDS = frozenset(r.request_id for r in RECORDS)


def test_lines_of_one_request_are_told_together() -> None:
    log = parse_server_log(LOG.splitlines(), IDS)
    assert log.by_id == {
        "lg-1-0": EngineLine(
            request_id="lg-1-0", received=True, added=True, aborted=True
        ),
        "lg-1-1": EngineLine(
            request_id="lg-1-1",
            received=True,
            failed="The engine is currently busy and cannot accept new requests.",
        ),
    }


def test_join_by_id_then_by_port() -> None:
    found = dict(join(RECORDS, parse_server_log(LOG.splitlines(), IDS)))
    first, refused = found[0], found[2]
    assert isinstance(first, EngineLine)
    assert (first.added, first.status) == (True, 200)
    assert refused == EngineLine(client_port=47462, status=503)
    assert found[4] == EngineLine(client_port=47464, status=503)
    assert found[5] == NotInEngineLog()


def test_a_port_whose_lines_do_not_agree_joins_nothing() -> None:
    """Another client's port, as behind a gateway, must not be taken for ours."""
    other = [record(2, 47462, 429), record(3, 47464, 200)]
    found = dict(join(other, parse_server_log(LOG.splitlines(), frozenset())))
    assert found == {}


def test_a_log_that_names_no_request_proves_no_absence() -> None:
    log = parse_server_log(["INFO: started", "garbage \x00"], IDS)
    assert dict(join(RECORDS, log)) == {}


def test_ids_that_differ_by_a_suffix_stay_apart() -> None:
    ids = frozenset({"lg-1", "lg-1-2", "lg-1-2-3"})
    log = parse_server_log(
        ["Received request cmpl-lg-1-2-0: x", "Received request chatcmpl-lg-1-2-3: x"],
        ids,
    )
    assert set(log.by_id) == {"lg-1-2", "lg-1-2-3"}
