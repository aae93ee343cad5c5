"""The power that sensors on the board measure now, rail by rail; where there is no sensor it estimates nothing."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from edge_runtime.device.kernel_files import KernelFiles, numbered

_CURRENT: Final = numbered("curr", "_input")
_POWERS: Final = (numbered("power", "_input"), numbered("power", "_average"))
_MAX_MV: Final = 1_000_000
_MAX_MA: Final = 1_000_000
_MAX_UW: Final = 100_000_000_000
_ALARMS: Final = ("curr{}_crit_alarm", "curr{}_max_alarm", "in{}_lcrit_alarm", "in{}_min_alarm")
# How boards name the rail that feeds everything: the Jetsons from Nano to Thor.
_WHOLE: Final = ("VDD_IN", "VIN", "POM_5V_IN")
_NOT_CONNECTED: Final = "NC"


class Rail(NamedTuple):
    """One rail and its power; ``is_alarmed``: its sensor says that a limit of current or voltage is passed."""

    name: str
    watts: float
    is_alarmed: bool | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its name says that it feeds the whole board."""
        return self.name in _WHOLE


def rails(files: KernelFiles, path: str, name: str) -> Iterator[Rail]:
    """The rails of one hwmon device, of class hwmon at ``path``: by current and voltage (ina3221), or by power."""
    for one in files.names(path, _CURRENT):
        number = one.removeprefix("curr").removesuffix("_input")
        label = files.text(f"{path}/in{number}_label") or files.text(f"{path}/curr{number}_label")
        ma = files.number(f"{path}/{one}", -_MAX_MA, _MAX_MA)
        mv = files.number(f"{path}/in{number}_input", 0, _MAX_MV)
        # Without a label it may be a sum, or a shunt's voltage (an ina3221 has both).
        if label is not None and label != _NOT_CONNECTED and ma is not None and mv is not None:
            yield Rail(label, abs(ma) * mv / 1e6, _alarmed(files, path, number))
    # Most have the one or the other, for a moment or for the time of one update.
    powers = files.names(path, _POWERS[0]) or files.names(path, _POWERS[1])
    for one in powers:
        uw = files.number(f"{path}/{one}", 0, _MAX_UW)
        if uw is not None:
            label = files.text(f"{path}/{one.partition('_')[0]}_label")
            yield Rail(f"{name} {label}" if label else name, uw / 1e6, None)


def whole_board(found: Sequence[Rail]) -> Rail | None:
    """The rail that feeds the whole board, where one is named as such."""
    return next((rail for rail in found if rail.is_whole), None)


def _alarmed(files: KernelFiles, path: str, number: str) -> bool | None:
    found = [files.number(f"{path}/{name.format(number)}", 0, 1) for name in _ALARMS]
    known = [one for one in found if one is not None]
    return any(known) if known else None
