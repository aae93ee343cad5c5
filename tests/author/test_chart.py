import re
import sys
from importlib import reload

import numpy as np
import pytest

from edge_runtime.author import chart
from edge_runtime.author.chart import MAX_POINTS, bars, bins, histogram, scatter
from edge_runtime.errors import DeviceError


def test_a_scatter_has_a_dot_a_case_up_to_its_limit() -> None:
    numbers = [float(one) for one in range(4 * MAX_POINTS)]
    few = scatter(numbers[:10], numbers[:10], x="x", y="y", label="l")
    many = scatter(numbers, numbers, x="x", y="y", label="l")
    assert few.count("<circle") == 10
    assert many.count("<circle") == MAX_POINTS
    assert "a test case" in few
    assert "equal" in few


def test_one_value_alone_is_drawn() -> None:
    assert scatter([3.0], [3.0], x="x", y="y", label="l").count("<circle") == 1
    assert "<path" in histogram([("a", [3.0, 3.0])], x="x", label="l")
    assert "<rect" in bars([("a", 0.0)], x="x", label="l")


def test_bins_are_equal_hold_every_value_and_have_zero_in_the_middle_of_one() -> None:
    random = np.random.default_rng(1)
    for values in (random.normal(size=500), random.uniform(3, 4, 50), np.array([-1e-9, 1e9]), np.array([0.0, 0.0])):
        edges = bins([values])
        assert np.allclose(np.diff(edges), edges[1] - edges[0])
        assert np.histogram(values, edges)[0].sum() == len(values)
        if values.min() <= 0 <= values.max():
            at = np.searchsorted(edges, 0.0)
            assert edges[at - 1] + edges[at] == pytest.approx(0.0, abs=1e-6 * (edges[1] - edges[0]))


def test_labels_are_escaped_and_coordinates_short() -> None:
    drawn = histogram([("a<b", [0.1, 0.2, 1 / 3])], x="x & y", label='say "<this>"')
    assert 'aria-label="say &quot;&lt;this&gt;&quot;"' in drawn
    assert "x &amp; y" in drawn
    assert max(len(digits) for digits in re.findall(r"\.(\d+)", drawn)) <= 2
    assert drawn == histogram([("a<b", [0.1, 0.2, 1 / 3])], x="x & y", label='say "<this>"')


def test_without_the_library_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "leather", None)
    with pytest.raises(DeviceError, match=r"leather: found not installed.*install edge-runtime\[author\]"):
        reload(chart)
