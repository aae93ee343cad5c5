"""The steps along time and along a spectrum, against scipy and numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from edge_runtime.flow.steps_polynomial import coefficients
from tests.rig.steps import SECTIONS, run

CHANCE = np.random.default_rng(11)
COUNTED = np.arange(8.0)[np.newaxis, :, np.newaxis] + np.array([0.0, 100.0])


def test_lag_puts_earlier_samples_beside_each():
    result = run(COUNTED, {"step": "lag", "lags": [0, 3, 1]})
    assert result.shape == (1, 5, 6)
    assert result[0, 0].tolist() == [3, 103, 0, 100, 2, 102]
    assert result[0, -1].tolist() == [7, 107, 4, 104, 6, 106]


def test_lag_without_the_newest_leaves_it_out():
    assert run(COUNTED, {"step": "lag", "lags": [2]})[0, :, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_lag_stacks_colours():
    values = CHANCE.normal(size=(2, 4, 3, 2, 3))
    result = run(values, {"step": "lag", "lags": [1, 0]})
    assert np.array_equal(result, np.concatenate([values[:, :-1], values[:, 1:]], axis=-1))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_difference(order):
    values = CHANCE.normal(size=(3, 9, 2))
    result = run(values, {"step": "difference", "order": order})
    by_hand = {
        1: values[:, 1:] - values[:, :-1],
        2: values[:, 2:] - 2 * values[:, 1:-1] + values[:, :-2],
        3: values[:, 3:] - 3 * values[:, 2:-1] + 3 * values[:, 1:-2] - values[:, :-3],
    }[order]
    assert np.allclose(result, by_hand, rtol=0, atol=1e-14)


DESIGNS = {
    "butterworth 1": signal.butter(1, 0.2, output="sos"),
    "butterworth 6 low": signal.butter(6, 0.1, output="sos"),
    "butterworth 4 high": signal.butter(4, 0.3, "highpass", output="sos"),
    "chebyshev band": signal.cheby1(3, 0.5, [0.2, 0.4], "bandpass", output="sos"),
    "elliptic 7": signal.ellip(7, 0.1, 60, 0.25, output="sos"),
}


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("time", [1, 2, 5, 200])
@pytest.mark.parametrize("sample", [(1,), (3,), (2, 2), (2, 2, 3)])
def test_filter_equals_scipy(design, time, sample):
    sos = DESIGNS[design]
    values = CHANCE.normal(10, 3, size=(4, time, *sample))
    raw = {"step": "filter", "sections": [tuple(section) for section in sos.tolist()]}
    assert np.allclose(
        run(values, raw | {"initial": "zero"}), signal.sosfilt(sos, values, axis=1), rtol=1e-10, atol=1e-12
    )
    zi = signal.sosfilt_zi(sos)  # (sections, 2), for a first sample of 1
    first = values[np.newaxis, :, 0][:, :, np.newaxis]  # (1, batch, 1, *sample)
    state = zi.reshape(len(sos), 1, 2, *[1] * len(sample)) * first
    expected = signal.sosfilt(sos, values, axis=1, zi=state)[0]
    assert np.allclose(run(values, raw | {"initial": "steady"}), expected, rtol=1e-9, atol=1e-9)


def test_a_steady_filter_leaves_a_constant_alone_from_its_first_sample():
    raw = {"step": "filter", "sections": [(0.25, 0.25, 0, 1, -0.5, 0)], "initial": "steady"}
    assert run(np.full((2, 5, 1), 8.0), raw).tolist() == [[[8.0]] * 5] * 2


def test_filter_keeps_no_memory_between_calls():
    values = CHANCE.normal(size=(1, 20, 2))
    raw = {"step": "filter", "sections": SECTIONS, "initial": "steady"}
    assert np.array_equal(run(values, raw), run(values, raw))
    from edge_runtime.flow.steps import plan
    from tests.rig.steps import made

    planned = plan(made(raw), (20, 2))
    assert np.array_equal(planned.apply(values), planned.apply(values))


@pytest.mark.parametrize("time", [3, 8, 15, 64, 101])
@pytest.mark.parametrize("hann", ["periodic", "symmetric"])
def test_spectrum_equals_scipy_s_window_and_numpy_s_fft(time, hann):
    values = CHANCE.normal(size=(3, time, 2))
    window = signal.get_window("hann", time, fftbins=hann == "periodic")
    expected = np.abs(np.fft.rfft(values * window[:, np.newaxis], axis=1))
    raw = {"step": "spectrum", "hann": hann}
    magnitude = run(values, raw | {"output": "magnitude"})
    assert magnitude.shape == (3, time // 2 + 1, 2)
    assert np.allclose(magnitude, expected, rtol=1e-12, atol=1e-13)
    assert np.allclose(run(values, raw | {"output": "power"}), expected**2, rtol=1e-12, atol=1e-13)
    decibel = run(values, raw | {"output": "db", "floor": 0.5})
    assert np.allclose(decibel, 20 * np.log10(np.maximum(expected, 0.5)), rtol=0, atol=1e-10)
    assert decibel.min() >= 20 * np.log10(0.5)


def test_spectrum_finds_a_sine_in_its_bin_and_silence_on_the_floor():
    time = np.arange(64)
    values = np.stack([np.sin(2 * np.pi * 8 * time / 64), np.zeros(64)], axis=-1)[np.newaxis]
    result = run(values, {"step": "spectrum", "hann": "periodic", "output": "db", "floor": 1e-3})[0]
    assert result[:, 0].argmax() == 8
    assert np.isclose(result[8, 0], 20 * np.log10(16))  # amplitude * 64 / 2 * 0.5, the mean of the window
    assert np.allclose(result[:, 1], -60)


def test_spectrum_of_pictures_goes_along_time_too():
    values = CHANCE.normal(size=(2, 10, 3, 4))
    result = run(values, {"step": "spectrum", "hann": "periodic", "output": "power"})
    lone = run(values[:, :, 1, 2, np.newaxis], {"step": "spectrum", "hann": "periodic", "output": "power"})
    assert np.array_equal(result[:, :, 1, 2], lone[..., 0])


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("points", [2, 3, 17, 256])
def test_snv(ddof, points):
    values = CHANCE.normal(1e4, 3, size=(3, 2, points))
    expected = (values - values.mean(-1, keepdims=True)) / values.std(-1, ddof=ddof, keepdims=True)
    assert np.allclose(run(values, {"step": "snv", "ddof": ddof}), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("level", [0.0, 0.1, -1e9])
def test_snv_of_a_flat_spectrum_is_not_a_number(level):
    values = np.full((2, 1, 7), level)
    values[1, 0, 3] = 5.0
    result = run(values, {"step": "snv", "ddof": 1})
    assert np.isnan(result[0]).all()
    assert np.isfinite(result[1]).all()
    near = np.full((1, 1, 7), 0.1) * (1 + 1e-15 * np.arange(7))
    assert near.std() > 0
    assert np.isnan(run(near, {"step": "snv", "ddof": 1})).all()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_savitzky_golay_equals_scipy(data):
    window = data.draw(st.integers(1, 12)) * 2 + 1
    polyorder = data.draw(st.integers(0, min(6, window - 1)))
    derivative = data.draw(st.integers(0, polyorder))
    delta = data.draw(st.sampled_from([1.0, 0.5, 2.5]))
    size = window + data.draw(st.integers(0, 40))
    values = CHANCE.normal(size=(2, 3, size))
    settings_ = {
        "step": "savitzky_golay",
        "window": window,
        "polyorder": polyorder,
        "derivative": derivative,
        "delta": delta,
    }
    expected = signal.savgol_filter(values, window, polyorder, deriv=derivative, delta=delta, axis=-1, mode="interp")
    # scipy solves in floating point, so that its own error grows with the power of the window's half.
    atol = 1e-8 * max(1.0, np.abs(expected).max())
    assert np.allclose(run(values, settings_ | {"along": "sample"}), expected, rtol=1e-8, atol=atol)
    along = run(values.swapaxes(1, 2), settings_ | {"along": "time"})
    assert np.allclose(along, expected.swapaxes(1, 2), rtol=1e-8, atol=atol)


def test_savitzky_golay_s_classical_coefficients():
    assert coefficients(5, 2, 0)[2] == [-3 / 35, 12 / 35, 17 / 35, 12 / 35, -3 / 35]
    assert coefficients(5, 2, 1)[2] == [-2 / 10, -1 / 10, 0.0, 1 / 10, 2 / 10]
    assert coefficients(7, 3, 0)[3] == [-2 / 21, 3 / 21, 6 / 21, 7 / 21, 6 / 21, 3 / 21, -2 / 21]
    assert coefficients(3, 2, 0) == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_savitzky_golay_gives_a_polynomial_back_up_to_its_ends():
    x = np.arange(30.0)
    values = (2 - 3 * x + 0.5 * x**2)[np.newaxis, np.newaxis]
    raw = {"step": "savitzky_golay", "window": 9, "polyorder": 2, "along": "sample"}
    assert np.allclose(run(values, raw), values, rtol=1e-12)
    slope = run(values, raw | {"derivative": 1, "delta": 0.5})
    assert np.allclose(slope[0, 0], (-3 + x) / 0.5, atol=1e-10)


@pytest.mark.parametrize("falling_source", [False, True])
@pytest.mark.parametrize("falling_target", [False, True])
def test_resample_equals_interp(falling_source, falling_target):
    source = np.cumsum(CHANCE.uniform(0.1, 2, 20))
    target = np.sort([*CHANCE.uniform(source[0], source[-1], 31), source[0], source[7], source[-1]])
    values = CHANCE.normal(size=(3, 2, 20))
    expected = np.array([[np.interp(target, source, spectrum) for spectrum in row] for row in values])
    if falling_source:
        source, values = source[::-1], values[..., ::-1]
    if falling_target:
        target, expected = target[::-1], expected[..., ::-1]
    result = run(values, {"step": "resample", "source": source.tolist(), "target": target.tolist()})
    assert np.allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_resample_to_its_own_grid_changes_nothing():
    grid = np.cumsum(CHANCE.uniform(0.1, 2, 50)).tolist()
    values = CHANCE.normal(size=(3, 2, 50))
    assert np.array_equal(run(values, {"step": "resample", "source": grid, "target": grid}), values)
