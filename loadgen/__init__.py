"""loadgen: open-loop load tests for LLM servers that say who refused, and why."""

__version__ = "0.1.0"

__all__ = ["__version__"]
