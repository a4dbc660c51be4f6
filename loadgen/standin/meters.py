"""The counters of /metrics, under vLLM's names.

Only what the stand-in has: a name it lacks is absent, not zero. As in vLLM, the
gauges move when the engine does a step, rejections count attempts, and a client
that leaves is in no counter of finished requests.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from loadgen import __version__
from loadgen.sim.engine import Engine, Refusal, Sequence, Step
from loadgen.units import NS_PER_S

__all__ = ["Meters", "Times"]

_FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")
_TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
_STEP_TOKENS = (1, *(8 * 2**k for k in range(12)))
_FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1),
    *(2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560),
)
_TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1),
    *(2.5, 5, 7.5, 10, 20, 40, 80),
)
_REQUEST_S = (
    *(0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60),
    *(120, 240, 480, 960, 1920, 7680),
)
_HISTOGRAMS: dict[str, tuple[str, tuple[float, ...]]] = {
    "request_prompt_tokens": ("prompt tokens of a finished request", _TOKENS),
    "request_generation_tokens": ("output tokens of a finished request", _TOKENS),
    "iteration_tokens_total": ("tokens computed in one step", _STEP_TOKENS),
    "request_num_preemptions": (
        "preemptions of a finished request",
        (1, 2, 3, 4, 5, 10, 20),
    ),
    "time_to_first_token_seconds": ("arrival to first token", _FIRST_TOKEN_S),
    "inter_token_latency_seconds": ("gaps between tokens", _TOKEN_S),
    "request_time_per_output_token_seconds": ("mean gap of a request", _TOKEN_S),
    "e2e_request_latency_seconds": ("arrival to last token", _REQUEST_S),
    "request_queue_time_seconds": ("waiting for a slot", _REQUEST_S),
    "request_inference_time_seconds": ("slot to last token", _REQUEST_S),
    "request_prefill_time_seconds": ("slot to first token", _REQUEST_S),
    "request_decode_time_seconds": ("first to last token", _REQUEST_S),
}


class Times:
    """The instants of one request on the server's clock, in ns.

    ``arrived_ns`` is when its head had been read, ``queued_ns`` when it was
    admitted; the later ones are None until they happen.
    """

    __slots__ = ("arrived_ns", "first_ns", "last_ns", "queued_ns", "scheduled_ns")

    def __init__(self, arrived_ns: int, queued_ns: int) -> None:
        self.arrived_ns = arrived_ns
        self.queued_ns = queued_ns
        self.scheduled_ns: int | None = None
        self.first_ns: int | None = None
        self.last_ns: int | None = None


class Meters:
    """All meters of one stand-in."""

    def __init__(self, model: str, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._labels = {"engine": "0", "model_name": model}
        self._running = self._gauge("num_requests_running", "sequences in the batch")
        self._waiting = self._gauge("num_requests_waiting", "sequences in the queue")
        self._kv_usage = self._gauge("kv_cache_usage_perc", "KV pool in use, 1 = full")
        self._preempted = self._counter("num_preemptions", "preemptions")
        self._prompt = self._counter("prompt_tokens", "prompt tokens computed")
        self._generated = self._counter("generation_tokens", "tokens put out")
        self._histograms = {
            name: self._histogram(name, *about) for name, about in _HISTOGRAMS.items()
        }
        success = Counter(
            "vllm:request_success",
            "Stand-in: finished requests.",
            ["engine", "finished_reason", "model_name"],
            registry=self.registry,
        )
        self._success = {
            reason: success.labels(finished_reason=reason, **self._labels)
            for reason in _FINISHED_REASONS
        }
        rejections = Counter(
            "vllm:admission_rejections",
            "Stand-in: attempts refused by a cap.",
            ["model_name", "reason"],
            registry=self.registry,
        )
        self._rejections = {
            refusal: rejections.labels(model_name=model, reason=refusal.value)
            for refusal in Refusal
        }
        self._http = Counter(
            "http_requests",
            "Stand-in: answers by method, status and handler.",
            ["handler", "method", "status"],
            registry=self.registry,
        )
        self._describe(engine)

    def rejected(self, refusal: Refusal) -> None:
        self._rejections[refusal].inc()

    def answered(self, handler: str, method: str, status: int) -> None:
        """Count an answer by its status alone, as vLLM's HTTP layer does."""
        self._http.labels(handler, method, f"{status // 100}xx").inc()

    def stepped(self, step: Step) -> None:
        self._histograms["iteration_tokens_total"].observe(step.tokens)
        self._preempted.inc(len(step.preempted))

    def levels(self, engine: Engine) -> None:
        """Set the gauges to where the engine stands."""
        self._running.set(engine.running)
        self._waiting.set(engine.waiting)
        self._kv_usage.set(engine.kv_usage)

    def token(self, sequence: Sequence, times: Times, now_ns: int) -> None:
        """Count a token put out now, and stamp it."""
        self._generated.inc()
        if times.first_ns is None or times.last_ns is None:
            times.first_ns = now_ns
            self._prompt.inc(sequence.prompt_tokens)
            self._observe("time_to_first_token_seconds", now_ns - times.arrived_ns)
        else:
            self._observe("inter_token_latency_seconds", now_ns - times.last_ns)
        times.last_ns = now_ns

    def finished(self, sequence: Sequence, times: Times, reason: str) -> None:
        """Count a request that has put out its last token."""
        self._success[reason].inc()
        count = self._histograms
        count["request_prompt_tokens"].observe(sequence.prompt_tokens)
        count["request_generation_tokens"].observe(sequence.output_tokens)
        count["request_num_preemptions"].observe(sequence.preemptions)
        scheduled_ns, first_ns, last_ns = (
            times.scheduled_ns,
            times.first_ns,
            times.last_ns,
        )
        if scheduled_ns is None or first_ns is None or last_ns is None:
            raise ValueError("the sequence has not run")
        self._observe("e2e_request_latency_seconds", last_ns - times.arrived_ns)
        self._observe("request_queue_time_seconds", scheduled_ns - times.queued_ns)
        self._observe("request_inference_time_seconds", last_ns - scheduled_ns)
        self._observe("request_prefill_time_seconds", first_ns - scheduled_ns)
        self._observe("request_decode_time_seconds", last_ns - first_ns)
        if sequence.output_tokens > 1:
            mean_ns = (last_ns - first_ns) / (sequence.output_tokens - 1)
            self._observe("request_time_per_output_token_seconds", mean_ns)

    def render(self) -> bytes:
        """The text of /metrics."""
        return generate_latest(self.registry)

    def _observe(self, name: str, duration_ns: float) -> None:
        self._histograms[name].observe(duration_ns / NS_PER_S)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(
            f"vllm:{name}",
            f"Stand-in: {about}.",
            list(self._labels),
            registry=self.registry,
        ).labels(**self._labels)

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(
            f"vllm:{name}",
            f"Stand-in: {about}.",
            list(self._labels),
            registry=self.registry,
        ).labels(**self._labels)

    def _histogram(
        self, name: str, about: str, buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(
            f"vllm:{name}",
            f"Stand-in: {about}.",
            list(self._labels),
            buckets=buckets,
            registry=self.registry,
        ).labels(**self._labels)

    def _describe(self, engine: Engine) -> None:
        spec = engine.spec
        facts = {
            "block_size": str(spec.block_tokens),
            "engine": "0",
            "enable_prefix_caching": "False",
            "num_gpu_blocks": str(spec.kv_blocks),
            "kv_cache_size_tokens": str(spec.kv_blocks * spec.block_tokens),
        }
        for name, labels in (
            ("vllm:cache_config_info", facts),
            ("loadgen_standin_info", {"basis": "stand-in", "version": __version__}),
        ):
            info = Gauge(
                name, "Stand-in: configuration.", list(labels), registry=self.registry
            )
            info.labels(**labels).set(1)
