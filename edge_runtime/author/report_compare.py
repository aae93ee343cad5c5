"""The bundle's answers beside the float32 model's and the truth, as tables and pictures of one report."""

from collections.abc import Iterator

import numpy as np

from edge_runtime.author.chart import MAX_POINTS, histogram, scatter
from edge_runtime.author.report_facts import Comparison
from edge_runtime.author.report_html import absent, figure, heading, number, paragraph, pictures, section, table, unit

_MOST_LABELS = 24


def compared(comparisons: tuple[Comparison, ...] | None) -> str:
    """The section, with one part for each output of each variant."""
    title = "The bundle against the float32 model"
    if comparisons is None:
        return section(title, absent("The contract names no test split, or the data was not given."))
    return section(title, *(part for one in comparisons for part in _one(one, only=len(comparisons) == 1)))


def _one(one: Comparison, *, only: bool) -> Iterator[str]:
    if not only:
        yield heading(f"{one.variant}, {one.output}")
    yield paragraph(
        f"{one.cases} cases of the test split, which the model was not trained on. "
        + (
            "The bundle holds the model in fewer bits; what that costs is the difference between the two columns."
            if one.quantized
            else "The bundle holds the float32 model itself, so that both columns are the same model."
        )
    )
    yield table(
        f"{one.output} on the test split",
        ("figure", "float32", "bundle", "unit"),
        [(row.name, number(row.float32), number(row.bundle), unit(row.unit)) for row in one.metrics],
        kinds="tnnt",
    )
    yield _confusion(one) if one.labels else pictures(_pictures(one))


def _pictures(one: Comparison) -> Iterator[str]:
    ours, exact = np.array(one.bundle, np.float64), np.array(one.float32, np.float64)
    shown_unit = unit(one.unit)
    axis, after = (f", {shown_unit}", f" {shown_unit}") if shown_unit else ("", "")
    shown = f" One case in {-(-len(ours) // MAX_POINTS)} is drawn." if len(ours) > MAX_POINTS else ""
    off = ours - exact
    if one.quantized:
        yield figure(
            scatter(ours.tolist(), exact.tolist(), x=f"float32{axis}", y=f"bundle{axis}",
                    label=f"Scatter of {one.output}: the bundle's answer over the float32 model's, for each test case"),
            f"Each dot is one case; on the line both models agree.{shown} The largest distance is "
            f"{number(float(np.abs(off).max()))}{after}.",
        )  # fmt: skip
        yield figure(
            histogram([("bundle \N{MINUS SIGN} float32", off.tolist())], x=f"bundle \N{MINUS SIGN} float32{axis}",
                      label=f"Histogram of {one.output}: the bundle's answer less the float32 model's"),
            f"How often the two models differ by how much; half of the cases by less than "
            f"{number(float(np.median(np.abs(off))))}{after}.",
        )  # fmt: skip
    if one.truth is None:
        yield paragraph("The test split has no true values, so that errors are not measured.", "absent")
        return
    truth = np.array(one.truth, np.float64)
    name = "bundle" if one.quantized else "bundle (the float32 model)"
    series = [(name, (ours - truth).tolist()), *([("float32", (exact - truth).tolist())] if one.quantized else [])]
    yield figure(
        scatter(ours.tolist(), truth.tolist(), x=f"truth{axis}", y=f"bundle{axis}",
                label=f"Scatter of {one.output}: the bundle's answer over the true value, for each test case"),
        f"Each dot is one case; on the line the answer is right.{shown}",
    )  # fmt: skip
    yield figure(
        histogram(series, x=f"answer \N{MINUS SIGN} truth{axis}",
                  label=f"Histogram of the errors of {one.output}: the answer less the true value"),
        f"Errors against the truth; nine of ten cases are within "
        f"{number(float(np.quantile(np.abs(ours - truth), 0.9)))}{after}.",
    )  # fmt: skip


def _confusion(one: Comparison) -> str:
    """True labels by row, the bundle's by column; without truth the float32 model's by row."""
    rows, what = (one.truth, "true") if one.truth is not None else (one.float32, "float32")
    if len(one.labels) > _MOST_LABELS:
        return paragraph(f"{len(one.labels)} labels are too many for a table of which is taken for which.", "note")
    counts = dict.fromkeys(((a, b) for a in one.labels for b in one.labels), 0)
    for pair in zip(rows, one.bundle, strict=True):
        counts[str(pair[0]), str(pair[1])] += 1
    return table(
        f"How often which label ({what}, by row) was answered as which (by column)",
        (what, *one.labels),
        [(label, *(str(counts[label, other] or "\N{MIDDLE DOT}") for other in one.labels)) for label in one.labels],
        kinds="t" + "n" * len(one.labels),
    )
