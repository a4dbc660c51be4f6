"""The stand-in engine: the simulated engine behind real HTTP and SSE.

It answers as vLLM 0.33 does on the wire and refuses as vLLM 0.33 does, but its
tokens are invented and its speed is a formula: nothing measured against it says
anything about a real server.
"""

from __future__ import annotations

from loadgen.standin.launch import Standin, start
from loadgen.standin.options import Faults, StandinOptions

__all__ = ["Faults", "Standin", "StandinOptions", "start"]
