"""Raw values as an author holds them, brought to the rows that a bundle's manifest describes; it changes no value."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.manifest import Manifest

# One array over all channels, or arrays by channel.
Raw = NDArray[Any] | Mapping[str, NDArray[Any]]


def rows_of(raw: Raw, manifest: Manifest, axes: Sequence[str] | None) -> NDArray[np.float64]:
    """Raw values as float64 ``(cases, samples, row)``, a category as the place of its word.

    One array has the axes ``case`` first, then ``channel`` and, with a window or a state, ``time`` in any order. Arrays
    by channel are ``(cases, samples, *shape)`` or, without window and state, ``(cases, *shape)``.

    Raises:
        ConfigurationError: shapes or names that do not fit the manifest, or sizes that leave the order open.

    """
    if not isinstance(raw, Mapping):
        return _stacked(np.asarray(raw), manifest, axes)
    names = [channel.name for channel in manifest.channels]
    if sorted(raw) != sorted(names):
        raise ConfigurationError(
            subject="raw, channels", found=", ".join(map(str, raw)), expected=", ".join(names), todo="name each channel"
        )
    columns = [
        _column(np.asarray(raw[channel.name]), channel, has_time=_has_time(manifest)) for channel in manifest.channels
    ]
    if len({column.shape[:2] for column in columns}) != 1:
        found = ", ".join(f"{name} {column.shape[:2]}" for name, column in zip(names, columns, strict=True))
        raise ConfigurationError(
            subject="raw, (cases, samples)",
            found=found[:200],
            expected="the same of each channel",
            todo="write the same cases",
        )
    return np.concatenate(columns, axis=2)


def _has_time(manifest: Manifest) -> bool:
    return manifest.window is not None or bool(manifest.state)


def _stacked(values: NDArray[Any], manifest: Manifest, axes: Sequence[str] | None) -> NDArray[np.float64]:
    channels = manifest.channels
    if len(channels) == 1 and channels[0].shape and axes is None:
        return _column(values, channels[0], has_time=_has_time(manifest))
    if any(channel.shape or channel.form == "category" for channel in channels):
        raise ConfigurationError(
            subject="raw", found="one array for channels that are not single numbers", expected="arrays by channel",
            todo="give a dict from channel names to arrays",
        )  # fmt: skip
    named = ("channel", "time") if _has_time(manifest) else ("channel",)
    fitting = [one for one in permutations(named) if _fits(values.shape[1:], one, manifest)]
    if axes is not None:
        fitting = [one for one in fitting if ("case", *one) == tuple(axes)]
    if len(fitting) != 1:
        raise ConfigurationError(
            subject="raw", found=f"shape {values.shape}" + (f" under the axes {', '.join(axes)}" if axes else ""),
            expected=f"cases first, {len(channels)} channels" + (f", {manifest.length} samples" if len(named) > 1 else ""),
            todo='say which is which: axes=("case", "channel", "time")' if len(fitting) > 1 else "correct the array",
        )  # fmt: skip
    wide = values.astype(np.float64)
    order = fitting[0]
    if len(order) == 1:
        return wide[:, np.newaxis, :]
    return np.ascontiguousarray(wide.transpose(0, 1 + order.index("time"), 1 + order.index("channel")))


def _fits(sizes: tuple[int, ...], order: tuple[str, ...], manifest: Manifest) -> bool:
    if len(sizes) != len(order) or sizes[order.index("channel")] != len(manifest.channels):
        return False
    if "time" not in order:
        return True
    samples = sizes[order.index("time")]
    return samples >= manifest.length if manifest.state else samples == manifest.length


def _column(values: NDArray[Any], channel: Channel, *, has_time: bool) -> NDArray[np.float64]:
    ends = 1 + has_time
    good = values.ndim == ends + len(channel.shape) and values.shape[ends:] == channel.shape
    if not good:
        shape = ", ".join(["cases", *(["samples"] if has_time else []), *map(str, channel.shape)])
        raise ConfigurationError(
            subject=f"raw, {channel.name}",
            found=f"shape {values.shape}",
            expected=f"({shape})",
            todo="correct the array",
        )
    if channel.form == "category" and values.dtype.kind in "UO":
        values = _places(values, channel)
    samples = values.shape[1] if has_time else 1
    return values.astype(np.float64).reshape(len(values), samples, channel.width)


def _places(values: NDArray[Any], channel: Channel) -> NDArray[np.float64]:
    words = {word: float(at) for at, word in enumerate(channel.categories)}
    otherwise = None if channel.unknown is None else float(channel.unknown)
    unknown = sorted({str(word) for word in values.ravel()} - set(words))
    if unknown and otherwise is None:
        raise ConfigurationError(
            subject=f"raw, {channel.name}", found=repr(unknown[0])[:60], expected=f"one of {', '.join(words)}"[:200],
            todo="leave that case out",
        )  # fmt: skip
    return np.array([words.get(str(word), otherwise) for word in values.ravel()], np.float64).reshape(values.shape)
