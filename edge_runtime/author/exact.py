"""Opens a model so that its int8 sums are whole on this processor, as a device's boot would; it judges no number.

An author's x86-64 without VNNI would else saturate where weights have more than 7 bits: goldens, gates and choices would
be made of wrong numbers.
"""

from functools import cache
from typing import Any

from edge_runtime.device.probe import needs_x64_quant_precision, probe
from edge_runtime.engine.session import Session, open_session


def open_exact(model: bytes, **settings: Any) -> Session:
    """``open_session`` with the kernels that cannot saturate, where this processor has others; raises as it does."""
    return open_session(model, quant_precision=_needs_precision(), **settings)


@cache
def _needs_precision() -> bool:
    # Weights of 7 bits would not need it; they come to the same numbers with it, and nobody has to be asked which they are.
    return needs_x64_quant_precision(probe(), seven_bit_weights=False)
