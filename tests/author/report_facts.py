"""Facts with every optional part, and texts that would break a page if they were not escaped."""

from dataclasses import replace
from functools import cache

from edge_runtime.author.record import read_record
from edge_runtime.author.report_facts import MutantClass, Mutation, NodeError, Recipe, ReportFacts
from edge_runtime.author.report_gather import gather
from edge_runtime.author.source import read_source
from edge_runtime.bundle.read import read_files
from tests.rig.bundles import ROOT

OPTIONAL = ("inputs", "tools", "proof", "comparisons", "nodes", "recipes", "mutation", "warnings")


@cache
def facts_of(name: str) -> ReportFacts:
    """What a bundle of this repository, its pack and its record say; ``name`` is the pack's folder."""
    bundle = name.replace("/", "_")
    return gather(
        read_files(ROOT / "bundles" / bundle),
        source=read_source(ROOT / "examples" / name / "contract.toml"),
        record=read_record(ROOT / "bundles" / f"{bundle}.build.json"),
    )


def whole() -> ReportFacts:
    """The frost report with made-up trials beside it."""
    return replace(
        facts_of("frost"),
        nodes=tuple(
            NodeError(f"/features/features.{at}/Conv_quant_of_a_long_name", "Conv", 0.08 / (at + 1)) for at in range(20)
        ),
        recipes=(
            Recipe("u8s8_per_channel_reduce_range", 0.021, 0.034, 25123, "1.588 °C", "every gate passed", chosen=True),
            Recipe("u8u8", 0.024, 0.037, 25200, "1.61 °C", "passed, slower", chosen=False),
            Recipe("u8s8_per_channel", None, None, 25110, "1.59 °C", "refused: saturates without VNNI", chosen=False),
            Recipe("float32", 0.052, 0.061, 80441, "1.602 °C", "the reference", chosen=False),
        ),
        mutation=Mutation(
            (
                MutantClass("constant-1", must=False, total=42, by_stage=(("tensor", 38), ("whole", 2)), by_answer=40),
                MutantClass("unit", must=True, total=15, by_stage=(("tensor", 15), ("whole", 0)), by_answer=15),
            ),
            survivors=("constant-1: input window, standardize std[2] 1 % up", "constant-1: flag frost, off 1 % down"),
            tolerated=2,
            equivalent=3,
            unjudged=1,
        ),
    )
