"""What `--trace` means for the lines that are about to be read; it writes nothing itself."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edge_runtime.errors import UsageError
from edge_runtime.spec.device_config import LineConfig
from edge_runtime.spec.source import SerialSource

if TYPE_CHECKING:
    from edge_runtime.sources.trace import Trace


def open_trace(name: str | None, lines: Sequence[LineConfig]) -> "Trace | None":
    """Open the trace of that name, '-' for standard error; ``None`` for no trace.

    Raises:
        UsageError: no line has a serial port.
        DeviceError: the file cannot be written.

    """
    if name is None:
        return None
    if not any(isinstance(line.source, SerialSource) for line in lines):
        raise UsageError(
            subject="--trace", found="no line with a serial port", expected='one with source.kind = "serial"',
            todo="leave it out; messages of a broker are seen with mosquitto_sub -v",
        )  # fmt: skip
    from edge_runtime.sources.trace import Trace  # noqa: PLC0415 -- for who asks for it

    return Trace(None if name == "-" else Path(name), wall_ns=time.time_ns)
