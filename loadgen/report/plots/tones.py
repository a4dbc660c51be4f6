"""Which colour stands for which layer, in every picture."""

from __future__ import annotations

from loadgen.model import Layer
from loadgen.report.plots.chart import Tone

__all__ = ["layer_tone"]

_TONES: dict[str, Tone] = {
    Layer.ENGINE_ADMISSION: Tone.ADMISSION,
    Layer.GATEWAY: Tone.GATEWAY,
    Layer.ROUTER: Tone.ROUTER,
    Layer.PROVIDER: Tone.PROVIDER,
    Layer.ENGINE_FAILURE: Tone.FAILED,
    Layer.NETWORK: Tone.NETWORK,
    Layer.CLIENT: Tone.OWN,
}


def layer_tone(layer: str) -> Tone:
    """Of a layer; one of a newer version shares the colour of ``unknown``."""
    return _TONES.get(layer, Tone.UNKNOWN)
