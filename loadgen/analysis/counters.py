"""Which counters each engine has for its account, and what it does not count."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ENGINE_COUNTERS", "CounterNames", "names_of"]


@dataclass(frozen=True, slots=True)
class CounterNames:
    """One engine's series for the terms of the account; None: it has none.

    Args:
        success: requests finished.
        admission_rejections: refusals for want of room, one an attempt.
        aborted: requests dropped because the client left.
        note: what the engine leaves out, in one line; empty if nothing.
    """

    success: str | None = None
    admission_rejections: str | None = None
    aborted: str | None = None
    note: str = ""

    @property
    def refusals_counted(self) -> bool:
        return self.admission_rejections is not None

    @property
    def aborts_counted(self) -> bool:
        return self.aborted is not None


ENGINE_COUNTERS: dict[str, CounterNames] = {
    "vllm": CounterNames(
        "vllm:request_success_total",
        "vllm:admission_rejections_total",
        None,
        "it counts no client disconnect, and a refusal once for each try",
    ),
    "sglang": CounterNames(
        "sglang:num_requests_total",
        None,
        "sglang:num_aborted_requests_total",
        "it has no counter for its queue limit",
    ),
    "llamacpp": CounterNames(
        note="it counts tokens but neither finished nor refused requests"
    ),
    "ollama": CounterNames(note="it has no counters at all"),
    "tgi": CounterNames(
        "tgi_request_success", 'tgi_request_failure{err="overloaded"}', None
    ),
    "triton": CounterNames(
        "nv_inference_request_success",
        'nv_inference_request_failure{reason="REJECTED"}',
        'nv_inference_request_failure{reason="CANCELED"}',
    ),
    "trtllm": CounterNames(
        "trtllm_request_success_total",
        None,
        None,
        "it has no counter for refusals, which are 400s there",
    ),
    "dynamo": CounterNames(
        'dynamo_frontend_requests_total{error_type=""}',
        "dynamo_frontend_model_rejection_total",
        "dynamo_frontend_model_cancellation_total",
        "these are the frontend's; each worker counts its own",
    ),
    "lmdeploy": CounterNames("lmdeploy:num_requests_succeeded", None, None),
}


def names_of(engine: str) -> CounterNames:
    """An engine's counters by its name in any spelling; none for one not known."""
    plain = engine.lower().replace(".", "").replace("-", "").replace("_", "")
    return ENGINE_COUNTERS.get(plain, CounterNames())
