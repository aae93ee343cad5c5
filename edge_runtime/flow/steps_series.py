"""The steps along time and along a spectrum: lag, difference, filter, spectrum, SNV, Savitzky-Golay, resample."""

import math

import numpy as np

from edge_runtime.flow.steps_polynomial import coefficients
from edge_runtime.flow.steps_sums import Apply, Fit, Floats, Shape, linear, summed, weighted
from edge_runtime.spec.steps import Difference, Filter, Lag, Resample, SavitzkyGolay, Spectrum, StandardNormalVariate

_FLAT_SHARE = 1e-12  # a spread below this share of the largest value is the mean's rounding, not a spectrum
_LINE = 2  # dimensions of (time, channels) and of (time, points)
_TIME, _PICTURE = 1, 3  # in a batch, and without one, of (time, rows, columns)
_SHORTEST_SPECTRUM = 3  # a symmetric Hann window of two is all zero


def fit_lag(step: Lag, shape: Shape) -> Fit:
    """``(time, n)`` to ``(time - max(lags), n * len(lags))``: all of the first lag, then all of the second."""
    reach = max(step.lags)
    if len(shape) == _PICTURE or shape[0] <= reach:
        return f"(time, channels) or (time, rows, columns, colours) with {reach + 1} samples or more"
    slices = [slice(reach - lag, shape[0] - lag) for lag in step.lags]
    shrunk = (shape[0] - reach, *shape[1:-1], shape[-1] * len(step.lags))
    return lambda values: np.concatenate([values[:, part] for part in slices], axis=-1), shrunk


def fit_difference(step: Difference, shape: Shape) -> Fit:
    """``x[t] - x[t - 1]``, ``order`` times; the first result stands at sample ``order``."""
    order = step.order
    if shape[0] <= order:
        return f"(time, ...) with {order + 1} samples or more"
    return lambda values: np.diff(values, n=order, axis=_TIME), (shape[0] - order, *shape[1:])


def fit_filter(step: Filter, shape: Shape) -> Fit:
    """Second-order sections in transposed direct form II, as ``scipy.signal.sosfilt``; the shape stays."""
    sections = np.array(step.sections)
    rest = np.zeros((len(sections), 2)) if step.initial == "zero" else np.array(_steady(step))
    time, width = shape[0], math.prod(shape[1:])

    def apply(values: Floats) -> Floats:
        along = np.moveaxis(values, _TIME, 0)
        filtered = _filtered(along.reshape(time, len(values) * width), sections, rest)
        return np.moveaxis(filtered.reshape(along.shape), 0, _TIME)

    return apply, shape


def fit_spectrum(step: Spectrum, shape: Shape) -> Fit:
    """``|rFFT(hann * x)|``, its square or ``20 log10`` of it, not divided by anything; time gives ``time // 2 + 1`` bins."""
    time = shape[0]
    if time < _SHORTEST_SPECTRUM:
        return f"(time, ...) with {_SHORTEST_SPECTRUM} samples or more"
    period = time if step.hann == "periodic" else time - 1
    hann = np.array([0.5 - 0.5 * math.cos(2 * math.pi * index / period) for index in range(time)])
    finish = _finish(step)

    def apply(values: Floats) -> Floats:
        # Contiguous rows: over strided memory neither the FFT nor the logarithm promises the same last bits.
        windowed = np.multiply(np.moveaxis(values, _TIME, -1), hann, order="C")
        bins = np.fft.rfft(windowed, axis=-1)
        power = bins.real * bins.real
        power += bins.imag * bins.imag
        return np.moveaxis(finish(power), -1, _TIME)

    return apply, (time // 2 + 1, *shape[1:])


def fit_snv(step: StandardNormalVariate, shape: Shape) -> Fit:
    """``(x - mean) / std`` over the points of each spectrum; one without any spread becomes NaN."""
    if len(shape) != _LINE or shape[1] < _LINE:
        return "(time, points) with 2 points or more"
    count, divisor = shape[1], shape[1] - step.ddof

    def apply(values: Floats) -> Floats:
        off = values - summed(values) / count
        spread = np.sqrt(summed(off * off) / divisor)
        spread[spread <= _FLAT_SHARE * np.abs(values).max(axis=-1, keepdims=True)] = np.nan
        off /= spread
        return off

    return apply, shape


def fit_savitzky_golay(step: SavitzkyGolay, shape: Shape) -> Fit:
    """As ``scipy.signal.savgol_filter(mode="interp")``; the shape stays."""
    window, half = step.window, step.window // 2
    if step.along == "sample" and len(shape) != _LINE:
        return "(time, points)"
    axis = _TIME if step.along == "time" else -1
    if shape[0 if step.along == "time" else -1] < window:
        return f"{window} values or more along {step.along}"
    spacing = 1.0
    for _ in range(step.derivative):
        spacing *= step.delta
    weights = np.array(coefficients(window, step.polyorder, step.derivative)) / spacing

    def apply(values: Floats) -> Floats:
        along = np.moveaxis(values, axis, -1)
        inner = along.shape[-1] - 2 * half
        fitted = np.empty(along.shape)
        fitted[..., :half] = _fixed(along[..., :window], weights[:half])
        middle = fitted[..., half : half + inner]
        middle[...] = along[..., :inner] * weights[half, 0]
        for tap in range(1, window):
            middle += along[..., tap : tap + inner] * weights[half, tap]
        fitted[..., half + inner :] = _fixed(along[..., -window:], weights[half + 1 :])
        return np.moveaxis(fitted, -1, axis)

    return apply, shape


def fit_resample(step: Resample, shape: Shape) -> Fit:
    """``(time, len(source))`` to ``(time, len(target))``."""
    if shape[1:] != (len(step.source),):
        return f"(time, {len(step.source)})"
    taps = linear(step.source, step.target)
    return lambda values: weighted(values, 2, taps), (shape[0], len(step.target))


def _steady(step: Filter) -> list[tuple[float, float]]:
    """Each section's two memories after a constant 1 for ever; the next section gets this one's gain times that 1."""
    memories, level = [], 1.0
    for b0, b1, b2, _, a1, a2 in step.sections:
        gain = (b0 + b1 + b2) / (1 + a1 + a2)
        second = b2 - a2 * gain
        memories.append(((b1 - a1 * gain + second) * level, second * level))
        level *= gain
    return memories


def _filtered(values: Floats, sections: Floats, rest: Floats) -> Floats:
    """``values`` ``(time, n)`` through all sections at once: section ``s`` is ``s`` samples behind the first.

    What the first sections do after the last sample reaches the last one too late to be given out.
    """
    b0, b1, b2, _, a1, a2 = (column[:, np.newaxis] for column in sections.T)
    first = rest[:, 0:1] * values[0]
    second = rest[:, 1:2] * values[0]
    time, last = len(values), len(sections) - 1
    out = np.empty_like(values)
    passed = np.empty((len(sections) + 1, values.shape[1]))
    for now in range(time + last):
        if now < time:
            passed[0] = values[now]
        on = slice(0, min(last, now) + 1)
        x = passed[on]
        y = b0[on] * x
        y += first[on]
        first[on] = b1[on] * x - a1[on] * y + second[on]
        second[on] = b2[on] * x - a2[on] * y
        passed[1 : on.stop + 1] = y
        if now >= last:
            out[now - last] = passed[-1]
    return out


def _finish(step: Spectrum) -> Apply:
    if step.floor is not None:
        floor = step.floor
        return lambda power: 20.0 * np.log10(np.maximum(np.sqrt(power), floor))
    return np.sqrt if step.output == "magnitude" else np.positive


def _fixed(values: Floats, weights: Floats) -> Floats:
    """``(..., window)`` weighed by ``(out, window)`` to ``(..., out)``, tap by tap."""
    total = values[..., :1] * weights[:, 0]
    for tap in range(1, weights.shape[1]):
        total += values[..., tap : tap + 1] * weights[:, tap]
    return total
