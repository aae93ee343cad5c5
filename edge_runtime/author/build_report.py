"""A finished build as its report.html: what was measured on the way, handed to the page; it measures nothing itself."""

from collections.abc import Iterator

from edge_runtime.author.build import Build
from edge_runtime.author.demands import Accept
from edge_runtime.author.report import render
from edge_runtime.author.report_facts import Recipe
from edge_runtime.author.report_gather import gather
from edge_runtime.author.trials import SearchRecord, Trial


def report_of(made: Build) -> bytes:
    """The page about a build that passed, as UTF-8; the same bytes for the same build.

    A model with its steps inside takes other inputs than its source, so the two are not held against each other there.

    Raises:
        BundleError: a model that gives what no device would publish.
        DeviceError: leather is not installed.

    """
    contract, searched = made.source.contract, made.record.search
    scores = list(made.scores.values())
    return render(
        gather(
            made.files,
            source=made.source if contract.preprocessing == "runtime" else None,
            record=made.record,
            mutation=scores[0] if scores else None,
            recipes=tuple(_recipes(searched, contract.gates.accept[0])) if searched and contract.gates else None,
        )
    )


def _recipes(searched: SearchRecord, accept: Accept) -> Iterator[Recipe]:
    for trial in searched.trials:
        microseconds = trial.latency_us.get(1)
        yield Recipe(
            name=trial.name,
            p50_ms=None if microseconds is None else microseconds / 1000,
            p99_ms=None,
            size_bytes=trial.size_bytes,
            metric=_metric(trial, accept),
            verdict=f"{trial.verdict}: {'; '.join(trial.refusals)}" if trial.refusals else trial.verdict,
            chosen=trial.verdict == "winner",
        )


def _metric(trial: Trial, accept: Accept) -> str:
    seen = trial.measured.get(accept.output)
    return "" if seen is None or seen.metric is None else f"{accept.metric} {seen.metric:.4g}"
