"""The tolerances that a build's evidence proposes, for variants whose author has stated none; it widens no stated one."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edge_runtime.author.contract import Contract
from edge_runtime.author.evidence import measure_spread, propose, read_reports, widest
from edge_runtime.author.graph import Graph
from edge_runtime.bundle.golden import Goldens
from edge_runtime.device.fingerprint import machine_parts
from edge_runtime.device.probe import probe
from edge_runtime.spec.providers import CPU
from edge_runtime.spec.variant import Tolerance, Variant


def proposals(
    contract: Contract,
    made: Sequence[tuple[Variant, Graph, Goldens]],
    axes: Mapping[str, int],
    reports: Sequence[Path],
    tell: Callable[[str], None],
) -> dict[str, dict[str, Tolerance]]:
    """By variant and output tensor what spread and reports propose for the CPU; ``axes`` says where a state has its batch.

    Raises:
        ConfigurationError: a report that is none.
        DeviceError: an emulator that is here fails.

    """
    tell("measuring the spread that tolerances rest on")
    seen = read_reports(reports, bundle=contract.id, version=contract.version)
    for line in (*seen.unused, *seen.failed):
        tell(line)
    here = machine_parts(probe())
    found = {}
    for variant, graph, goldens in made:
        spread = measure_spread(graph, goldens.tensors, axes, contract.batch_sizes)
        steps = {name: scale.step for name, scale in variant.output_scale.items()}
        found[variant.name] = propose(spread, goldens.outputs, steps, seen, here, CPU)
    return found


def tolerating(contract: Contract, variant: Variant, proposed: Mapping[str, Mapping[str, Tolerance]]) -> Variant:
    """A variant with what is proposed, unless its author has stated a tolerance."""
    stated = next(one for one in contract.variants if one.name == variant.name).tolerance
    own = proposed.get(variant.name)
    if stated is not None or not own:
        return variant
    return variant.model_copy(update={"tolerances": {**variant.tolerances, CPU: widest(own)}})
