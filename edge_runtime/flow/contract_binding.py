"""Whether a binding suits its channel, and what happens to it in words; settled once at boot, it judges no value."""

from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.binding import ChannelBinding, Read
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.units import Affine, UnitMismatch, UnitUnknown, conversion, resolve

_ARRAY: tuple[Read, ...] = ("list", "columns", "base64", "file")
_SAME = Affine(1.0, 0.0)


def suiting_reads(channel: Channel) -> tuple[Read, ...]:
    """The ways of ``read`` that can give this channel's value, the plainest first."""
    if channel.shape:
        return _ARRAY
    return ("text",) if channel.form == "category" else ("number", "numeric_text")


def check_read(channel: Channel, binding: ChannelBinding) -> None:
    """Refuse a binding that can never give the channel a value it takes.

    Raises:
        ConfigurationError: ``read``, ``count``, ``grid_field``, ``unit`` or ``correction`` does not suit the channel.

    """
    reads = suiting_reads(channel)
    what = f"an array of shape {channel.shape}" if channel.shape else f"a {channel.form}"
    if channel.form == "opaque":
        what = f"{channel.dtype} numbers" + (f" of shape {channel.shape}" if channel.shape else "")
    if binding.read not in reads:
        hint = f'read = "{reads[0]}"' + (" in JSON, or columns in csv, or base64, or file" if channel.shape else "")
        _unfit(channel, "read", f"'{binding.read}'", f"{' or '.join(map(repr, reads))}, as it is {what}", hint)
    if binding.count is not None and binding.count != channel.width:
        _unfit(channel, "count", str(binding.count), f"{channel.width}, as it is {what}", "correct the count")
    if binding.grid_field is not None and not channel.grid:
        _unfit(channel, "grid_field", repr(binding.grid_field), "none, as its contract has no grid", "leave it out")
    if channel.form != "number":
        for key in ("unit", "unit_map", "correction"):
            if getattr(binding, key) is not None:
                _unfit(channel, key, "one", f"none, as it is {what}", f"leave {key} out")


def grid_conversion(channel: Channel, binding: ChannelBinding) -> Affine:
    """From the places a payload gives to places in the channel's grid unit.

    Raises:
        ConfigurationError: the units do not convert.

    """
    if binding.grid_unit is None or (binding.grid_unit == channel.grid_unit and binding.vocabulary == "ucum"):
        return _SAME
    try:
        return conversion(resolve(binding.grid_unit, binding.vocabulary), resolve(channel.grid_unit), "point")
    except (UnitUnknown, UnitMismatch) as error:
        raise ConfigurationError(
            subject=f"channel {channel.name}, grid_unit", found=repr(binding.grid_unit),
            expected=f"a unit that converts to {channel.grid_unit}", todo=str(error),
        ) from error  # fmt: skip


def conversion_words(channel: Channel, binding: ChannelBinding, unit_words: str, grid: Affine) -> str:
    """What happens to one channel's value, as a report shows it; ``unit_words`` is what happens to a number's unit."""
    parts = [unit_words]
    if channel.form == "category":
        parts = [f"a word of {len(channel.categories)} -> its place"]
        if channel.unknown is not None:
            parts.append(f"an unknown word -> {channel.unknown} ({channel.categories[channel.unknown]})")
    elif channel.form == "opaque":
        parts = [f"{channel.dtype} as it comes"]
    correction = binding.correction
    if correction:
        until = f", expires {correction.expires}" if correction.expires else ""
        parts.append(f"correction x * {correction.a!r} + {correction.b!r} of {correction.date}{until}")
    if channel.shape:
        parts.append(f"{' x '.join(map(str, channel.shape))} numbers from {_source(binding)}")
    if binding.grid_field is not None:
        other = "resampled linearly" if channel.other_grid == "resample" else "refused"
        parts.append(
            f"grid {binding.grid_unit} -> {channel.grid_unit} (x * {grid.a!r} + {grid.b!r}), another one {other}"
        )
    missing = {
        "refuse": "",
        "hold": f"a missing one held for {channel.hold_s} s",
        "fill": f"a missing one filled with {channel.fill!r}",
        "pass": "a missing one passed on as NaN",
    }[channel.when_missing]
    return f"{channel.name}: " + ", ".join(part for part in (*parts, missing) if part)


def _source(binding: ChannelBinding) -> str:
    if binding.read == "columns":
        return f"{binding.count} columns"
    return f"{binding.read} of {binding.dtype}" if binding.read in {"base64", "file"} else "a list"


def _unfit(channel: Channel, key: str, found: str, expected: str, todo: str) -> None:
    raise ConfigurationError(
        subject=f"channel {channel.name}, {key}", found=found, expected=expected,
        todo=f"{todo}; see docs/device_toml.md",
    )  # fmt: skip
