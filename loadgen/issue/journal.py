"""What became of each request: one record a line, the counters, the stats."""

from __future__ import annotations

import contextlib
import errno
import os
import traceback
from array import array
from collections import Counter
from collections.abc import Callable

import msgspec

from loadgen.issue.attempt import Attempt, Offer
from loadgen.issue.progress import SLOT
from loadgen.issue.stats import Histogram
from loadgen.model import Ending, Outcome, RequestRecord, TokenSource
from loadgen.wire.reading import Facts

__all__ = ["CLOCK_STEP", "Journal", "RecordFile"]

CLOCK_STEP = "clock_step"
"""The wall clock moved while the request was under way: no stamp of it is exact."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_KEPT_FAULTS = 5


class RecordFile:
    """Appends whole lines, each with one unbuffered write.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(path, flags, 0o644)
        self._length = os.fstat(self._fd).st_size

    def append(self, lines: bytes) -> None:
        """Write; on failure the file ends with the last whole line as before.

        Raises:
            OSError: disk full, limit reached, or gone.
        """
        try:
            written = os.write(self._fd, lines)
            while written < len(lines):
                written += os.write(self._fd, lines[written:])
        except OSError:
            self._cut_back()
            raise
        self._length += len(lines)

    def _cut_back(self) -> None:
        with contextlib.suppress(OSError):  # no plain file: a torn line is forgiven
            os.ftruncate(self._fd, self._length)

    def close(self) -> None:
        os.close(self._fd)


class Journal:
    """Turns ended attempts into records and keeps count.

    Args:
        file: where records go.
        slots: the progress block.
        prompt_tokens: counts made before t0, in the order of our share, -1
            unknown; may be empty.
        prompt_tokens_source: how they were counted.

    Attributes:
        check_clock: called before a record is made: the clocks may have stepped.
        full: called with the reason when a record cannot be written.
        start_lag: how late requests were taken up.
        send_lag: how late their last byte went out.
        lost: records that could not be written.
        end_ns: when the last request ended, ns since t0.
        faults: the first faults of ours, a line each.
    """

    def __init__(
        self,
        file: RecordFile,
        slots: memoryview[int],
        prompt_tokens: array[int],
        prompt_tokens_source: TokenSource,
    ) -> None:
        self._file = file
        self._slots = slots
        self._prompt_tokens = prompt_tokens
        self._prompt_tokens_source = prompt_tokens_source
        self._encode = msgspec.json.Encoder().encode
        self.check_clock: Callable[[], None] = _nothing
        self.full: Callable[[str], None] = _ignore
        self.start_lag = Histogram()
        self.send_lag = Histogram()
        self.outcomes: Counter[Outcome] = Counter()
        self.lost = 0
        self.tokens = 0
        self.tokens_exact = 0
        self.end_ns = 0
        self.faults: list[str] = []

    def started(self) -> None:
        """A request was taken up."""
        self._slots[_DUE] += 1
        self._slots[_IN_FLIGHT] += 1

    def sent(self, attempt: Attempt) -> None:
        """Its last byte went to the kernel."""
        assert attempt.sent_ns is not None
        lag_ns = attempt.sent_ns - attempt.offer.scheduled_ns
        self.send_lag.add(lag_ns)
        slots = self._slots
        slots[_SENT] += 1
        slots[_LAG_LAST] = lag_ns
        slots[_LAG_SUM] += lag_ns
        slots[_LAG_MAX] = self.send_lag.max_ns

    def ended(self, attempt: Attempt, ending: Ending, detail: str | None) -> None:
        """Write its record, whatever happens."""
        self._slots[_IN_FLIGHT] -= 1
        self.check_clock()
        self.start_lag.add(attempt.started_ns - attempt.offer.scheduled_ns)
        try:
            end_ns = attempt.end_ns(ending)
            facts = attempt.reading.close(ending, end_ns)
            record = self._record(attempt, facts, detail)
            line = self._encode(record)
        except Exception as error:  # noqa: BLE001 - a record there must be
            why = self.fault(error)
            if ending is Ending.INTERNAL and detail is not None:
                why = detail  # the first fault is the cause, this one its echo
            record = msgspec.structs.replace(
                bare_record(attempt.offer, Ending.INTERNAL, why),
                started_ns=attempt.started_ns,
                sent_ns=attempt.sent_ns,
                conn_reused=attempt.reused,
                local_port=attempt.local_port,
            )
            line = self._encode(record)
        self._count(record)
        self._write(line + b"\n", 1)

    def failed(self, offer: Offer, error: Exception) -> None:
        """A request that could not even be made ready: a fault of ours."""
        record = bare_record(offer, Ending.INTERNAL, self.fault(error))
        self._slots[_DUE] += 1
        self._count(record)
        self._write(self._encode(record) + b"\n", 1)

    def unsent(self, offers: list[Offer], detail: str) -> None:
        """Requests that were never taken up, a batch at a time."""
        records = [bare_record(offer, Ending.UNSENT, detail) for offer in offers]
        for record in records:
            self._count(record)
        lines = b"".join(self._encode(record) + b"\n" for record in records)
        self._write(lines, len(records))

    def fault(self, error: Exception) -> str:
        """Note a fault of ours; gives the line that names it."""
        where = traceback.extract_tb(error.__traceback__)[-1:]
        at = f" at {where[0].filename}:{where[0].lineno}" if where else ""
        line = f"{type(error).__name__}: {error}{at}"
        if len(self.faults) < _KEPT_FAULTS:
            self.faults.append(line)
        return line

    def _record(
        self, attempt: Attempt, facts: Facts, detail: str | None
    ) -> RequestRecord:
        offer = attempt.offer
        findings, exact = facts.findings + attempt.findings, facts.token_exact
        if attempt.voided:
            findings, exact = [*findings, CLOCK_STEP], [False] * len(exact)
        counted, source = self._prompt_length(offer, facts)
        clock = None
        if attempt.read_ns is not None:
            clock = "kernel" if attempt.stamped else "user"
        return RequestRecord(
            seq=offer.seq,
            request_id=offer.request_id,
            group=offer.group,
            tenant=offer.tenant,
            scheduled_ns=offer.scheduled_ns,
            started_ns=attempt.started_ns,
            sent_ns=attempt.sent_ns,
            connected_ns=attempt.connected_ns,
            headers_ns=facts.headers_ns,
            first_byte_ns=facts.first_byte_ns,
            first_event_ns=facts.first_event_ns,
            first_token_ns=facts.first_token_ns,
            first_answer_ns=facts.first_answer_ns,
            last_token_ns=facts.last_token_ns,
            end_ns=facts.end_ns,
            token_ns=facts.token_ns,
            token_exact=exact,
            status=facts.status,
            outcome=facts.outcome,
            ending=facts.ending,
            finish_reason=facts.finish_reason,
            done=facts.done,
            error=facts.error,
            detail=detail,
            retry_after_s=facts.retry_after_s,
            retry_after_raw=facts.retry_after_raw,
            prompt_tokens=counted,
            prompt_tokens_source=source,
            planned_prompt_tokens=offer.planned_prompt_tokens,
            output_tokens=facts.output_tokens,
            output_tokens_source=facts.output_tokens_source,
            max_tokens=offer.max_tokens,
            model=facts.model,
            response_id=facts.response_id,
            conn_reused=attempt.reused,
            local_port=attempt.local_port,
            headers=facts.headers,
            body_excerpt=facts.body_excerpt,
            bytes_received=facts.bytes_received,
            comments=facts.comments,
            bad_events=facts.bad_events,
            text_sha256=facts.text_sha256,
            text=facts.text,
            receive_clock=clock,
            findings=findings,
        )

    def _prompt_length(
        self, offer: Offer, facts: Facts
    ) -> tuple[int | None, TokenSource]:
        """The best count there is: the server's, one made before t0, our plan's."""
        if facts.prompt_tokens is not None:
            return facts.prompt_tokens, facts.prompt_tokens_source
        place, counts = offer.place, self._prompt_tokens
        if place < len(counts) and counts[place] >= 0:
            return counts[place], self._prompt_tokens_source
        if offer.planned_prompt_tokens is not None:
            return offer.planned_prompt_tokens, TokenSource.ESTIMATE
        return None, TokenSource.UNKNOWN

    def _count(self, record: RequestRecord) -> None:
        self.outcomes[record.outcome] += 1
        self.end_ns = max(self.end_ns, record.end_ns or 0)
        slots = self._slots
        slots[_ENDED] += 1
        slots[_OUTCOME[record.outcome]] += 1
        slots[_BYTES] += record.bytes_received
        if record.token_exact:
            self.tokens += len(record.token_exact)
            self.tokens_exact += record.token_exact.count(True)
            slots[_TOKENS] = self.tokens
        if record.first_token_ns is not None:
            ttft_ns = record.first_token_ns - record.scheduled_ns
            slots[_TTFT_COUNT] += 1
            slots[_TTFT_SUM] += ttft_ns
            slots[_TTFT_LAST] = ttft_ns

    def _write(self, lines: bytes, records: int) -> None:
        try:
            self._file.append(lines)
        except OSError as error:
            self.lost += records
            what = "disk full" if error.errno in _FULL else "records cannot be written"
            self.full(f"{what}: {error.strerror}")


def bare_record(offer: Offer, ending: Ending, detail: str) -> RequestRecord:
    """The record of a request about which nothing else is known."""
    known = offer.planned_prompt_tokens is not None
    return RequestRecord(
        seq=offer.seq,
        request_id=offer.request_id,
        group=offer.group,
        tenant=offer.tenant,
        scheduled_ns=offer.scheduled_ns,
        outcome=Outcome(ending.value),
        ending=ending,
        detail=detail,
        prompt_tokens=offer.planned_prompt_tokens,
        prompt_tokens_source=TokenSource.ESTIMATE if known else TokenSource.UNKNOWN,
        planned_prompt_tokens=offer.planned_prompt_tokens,
        max_tokens=offer.max_tokens,
    )


_DUE = SLOT["due"]
_IN_FLIGHT = SLOT["in_flight"]
_SENT = SLOT["sent"]
_ENDED = SLOT["ended"]
_BYTES = SLOT["bytes_received"]
_TOKENS = SLOT["tokens"]
_LAG_LAST = SLOT["send_lag_last_ns"]
_LAG_SUM = SLOT["send_lag_sum_ns"]
_LAG_MAX = SLOT["send_lag_max_ns"]
_TTFT_COUNT = SLOT["ttft_count"]
_TTFT_SUM = SLOT["ttft_sum_ns"]
_TTFT_LAST = SLOT["ttft_last_ns"]
_OUTCOME = {outcome: SLOT[f"outcome_{outcome}"] for outcome in Outcome}


def _nothing() -> None:
    pass


def _ignore(reason: str) -> None:
    pass
