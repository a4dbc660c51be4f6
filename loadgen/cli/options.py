"""The flags verbs share, in groups; the texts people read under ``--help``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

__all__ = ["EvidenceFlags", "OfferFlags", "OutputFlags", "PlanFlags", "TargetFlags"]

_SHAPE = "What is sent"
_TARGET = "Where it goes"
_LIMITS = "How it is offered"
_WATCH = "What is watched beside it"
_JUDGE = "How it is judged"
_OUT = "What comes out"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFlags:
    """What is sent, and when."""

    workload: Annotated[
        str,
        Option(
            help="A built-in workload (agent-burst, short-questions, long-documents, "
            "mixed), a .toml workload file, a .jsonl file of prompts or a trace.",
            rich_help_panel=_SHAPE,
        ),
    ] = "agent-burst"
    rate: Annotated[
        str | None,
        Option(
            help="Offered load: 20/s, 1200/min. Default: the workload's own.",
            rich_help_panel=_SHAPE,
        ),
    ] = None
    duration: Annotated[
        str | None,
        Option(
            help="Length of the schedule: 2s, 1m30s. Default: the workload's own.",
            rich_help_panel=_SHAPE,
        ),
    ] = None
    arrivals: Annotated[
        str | None,
        Option(
            help="constant, poisson, gamma, on-off, ramp or trace.",
            rich_help_panel=_SHAPE,
        ),
    ] = None
    burstiness: Annotated[
        float | None,
        Option(
            help="Shape of gamma arrivals: 1 is Poisson, below 1 is burstier.",
            rich_help_panel=_SHAPE,
        ),
    ] = None
    on: Annotated[
        str | None,
        Option(help="on-off: length of a burst, 200ms.", rich_help_panel=_SHAPE),
    ] = None
    off: Annotated[
        str | None,
        Option(help="on-off: silence between bursts.", rich_help_panel=_SHAPE),
    ] = None
    rate_end: Annotated[
        str | None,
        Option(help="ramp: the rate at the end.", rich_help_panel=_SHAPE),
    ] = None
    time_unit: Annotated[
        str | None,
        Option(
            help="Unit of a plain trace's timestamps: s or ms.",
            rich_help_panel=_SHAPE,
        ),
    ] = None
    time_scale: Annotated[
        float,
        Option(
            help="Stretch a trace's times: 2 takes twice as long.",
            rich_help_panel=_SHAPE,
        ),
    ] = 1.0
    mix: Annotated[
        str | None,
        Option(
            help="Weights of groups: short-question=50,long-document=50.",
            rich_help_panel=_SHAPE,
        ),
    ] = None
    equal: Annotated[
        bool,
        Option("--equal", help="Equal request counts a group.", rich_help_panel=_SHAPE),
    ] = False
    shared_prefix: Annotated[
        int | None,
        Option(
            help="Let every prompt begin with the same N tokens, on purpose.",
            rich_help_panel=_SHAPE,
        ),
    ] = None
    max_tokens: Annotated[
        int | None,
        Option(help="Output tokens asked of every request.", rich_help_panel=_SHAPE),
    ] = None
    seed: Annotated[
        int | None,
        Option(
            help="Same seed, same bytes. Default: the workload's own, else 0.",
            rich_help_panel=_SHAPE,
        ),
    ] = None
    api: Annotated[
        str,
        Option(
            help="Protocol to speak: openai-chat, openai-completions, "
            "openai-responses, anthropic, ollama, sglang, llamacpp, tgi, or auto to "
            "ask the server.",
            rich_help_panel=_SHAPE,
        ),
    ] = "openai-chat"
    model: Annotated[
        str | None,
        Option(
            help="Model name. Default: the only one the server lists.",
            rich_help_panel=_SHAPE,
        ),
    ] = None
    no_stream: Annotated[
        bool,
        Option(
            "--no-stream",
            help="Ask for whole answers; no TTFT.",
            rich_help_panel=_SHAPE,
        ),
    ] = False
    extra_body: Annotated[
        str | None,
        Option(
            help="JSON object merged into every body.",
            rich_help_panel=_SHAPE,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFlags:
    """Which server, and how to be let in."""

    url: Annotated[
        str | None,
        Option(
            help="The server's root, http://127.0.0.1:8000. "
            "Without it a stand-in engine is started on loopback.",
            rich_help_panel=_TARGET,
        ),
    ] = None
    endpoint: Annotated[
        str | None,
        Option(
            help="Path to post to. Default: the protocol's.", rich_help_panel=_TARGET
        ),
    ] = None
    api_key_env: Annotated[
        str | None,
        Option(
            help="Environment variable that holds the API key.",
            rich_help_panel=_TARGET,
        ),
    ] = None
    api_key_file: Annotated[
        Path | None,
        Option(help="File that holds the API key.", rich_help_panel=_TARGET),
    ] = None
    header: Annotated[
        list[str] | None,
        Option(
            help="Extra header, 'Name: value'. Its value is never written down.",
            rich_help_panel=_TARGET,
        ),
    ] = None
    insecure: Annotated[
        bool,
        Option(
            "--insecure",
            help="Do not verify the server's certificate.",
            rich_help_panel=_TARGET,
        ),
    ] = False
    ca_file: Annotated[
        Path | None,
        Option(help="Certificate authority to trust.", rich_help_panel=_TARGET),
    ] = None
    no_preflight: Annotated[
        bool,
        Option(
            "--no-preflight",
            help="Offer at once, whatever the server says before.",
            rich_help_panel=_TARGET,
        ),
    ] = False
    engine_url: Annotated[
        str | None,
        Option(
            help="The engine's own root where a gateway stands in front: its health, "
            "/metrics and /tokenize are asked there, directly.",
            rich_help_panel=_TARGET,
        ),
    ] = None
    metrics_url: Annotated[
        list[str] | None,
        Option(
            help="Address of a server's metrics, of several if given again; 'none' "
            "asks nobody. Default: the target's /metrics, if it has known series.",
            rich_help_panel=_WATCH,
        ),
    ] = None
    series: Annotated[
        list[str] | None,
        Option(
            help="A further series to follow, by its name at the server.",
            rich_help_panel=_WATCH,
        ),
    ] = None
    gpu: Annotated[
        str,
        Option(
            help="Look at this machine's GPUs by NVML: on, off, or auto: on where "
            "the server is on this machine.",
            rich_help_panel=_WATCH,
        ),
    ] = "auto"
    tokenizer: Annotated[
        Path | None,
        Option(
            help="tokenizer.json to count prompts with where the server cannot.",
            rich_help_panel=_TARGET,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferFlags:
    """Limits of one request and of the run, and how the run is judged."""

    slo: Annotated[
        str,
        Option(
            help="Targets a good request meets: ttft=2s,tpot=50ms,e2e=30s.",
            rich_help_panel=_JUDGE,
        ),
    ] = "ttft=2s"
    warmup: Annotated[
        int,
        Option(
            min=0,
            help="Requests offered before t0, one after another, never counted.",
            rich_help_panel=_LIMITS,
        ),
    ] = 0
    connect_timeout: Annotated[
        str, Option(help="Limit of a connect.", rich_help_panel=_LIMITS)
    ] = "10s"
    idle_timeout: Annotated[
        str,
        Option(
            help="Longest silence inside an answer before it is 'stalled'.",
            rich_help_panel=_LIMITS,
        ),
    ] = "60s"
    timeout: Annotated[
        str, Option(help="Limit of a whole request.", rich_help_panel=_LIMITS)
    ] = "10m"
    drain: Annotated[
        str,
        Option(
            help="How long to wait for open answers after the last send.",
            rich_help_panel=_LIMITS,
        ),
    ] = "10m"
    processes: Annotated[
        int,
        Option(
            min=1,
            help="Issuing processes that share the schedule, at most one a core.",
            rich_help_panel=_LIMITS,
        ),
    ] = 1
    engine: Annotated[
        str,
        Option(
            help="Where they run: local, or ray for the machines of a Ray cluster.",
            rich_help_panel=_LIMITS,
        ),
    ] = "local"
    ray_address: Annotated[
        str,
        Option(
            help="HOST:PORT of the Ray head; auto: RAY_ADDRESS, or this machine's.",
            rich_help_panel=_LIMITS,
        ),
    ] = "auto"
    strict: Annotated[
        bool,
        Option(
            "--strict",
            help="Refuse a schedule beyond what `loadgen calibrate` measured here.",
            rich_help_panel=_LIMITS,
        ),
    ] = False
    fresh_connections: Annotated[
        bool,
        Option(
            "--fresh-connections",
            help="A new connection for every request.",
            rich_help_panel=_LIMITS,
        ),
    ] = False
    keep_text: Annotated[
        bool,
        Option("--keep-text", help="Keep the answers' text.", rich_help_panel=_LIMITS),
    ] = False
    stamps: Annotated[
        str,
        Option(
            help="Receive stamps: auto (kernel where possible) or user.",
            rich_help_panel=_LIMITS,
        ),
    ] = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFlags:
    """What else may be known of a refusal than its answer."""

    signatures: Annotated[
        Path | None,
        Option(
            help="TOML file of your own refusal signatures, tried first.",
            rich_help_panel=_JUDGE,
        ),
    ] = None
    server_log: Annotated[
        Path | None,
        Option(
            help="The engine's log (vLLM, uvicorn), joined by request id or port.",
            rich_help_panel=_JUDGE,
        ),
    ] = None
    gateway_log: Annotated[
        Path | None,
        Option(
            help="A gateway's access log with Envoy's %RESPONSE_FLAGS%.",
            rich_help_panel=_JUDGE,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputFlags:
    """Where results go and how much is said."""

    out: Annotated[
        Path, Option(help="Folder that holds the runs.", rich_help_panel=_OUT)
    ] = Path("results")
    name: Annotated[
        str | None, Option(help="Name of this run.", rich_help_panel=_OUT)
    ] = None
    json_: Annotated[
        bool,
        Option("--json", help="Print the summary as JSON.", rich_help_panel=_OUT),
    ] = False
    html: Annotated[
        Path | None,
        Option(help="Write the report as one page to this file.", rich_help_panel=_OUT),
    ] = None
    quiet: Annotated[
        bool,
        Option("--quiet", "-q", help="No progress.", rich_help_panel=_OUT),
    ] = False
    dry_run: Annotated[
        bool,
        Option(
            "--dry-run",
            help="Plan and check everything, send nothing.",
            rich_help_panel=_OUT,
        ),
    ] = False
