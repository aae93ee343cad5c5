"""The command `mutate`: how many mistakes a bundle's goldens notice; it adds none and changes no bundle."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from edge_runtime.author.mutate import MutationScore, score
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import verify
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.manifest import parse


def main(arguments: Namespace) -> int:
    """Score every variant of a bundle; 0 where each meets the bar of docs/mutants.md, 1 where one does not."""
    path = Path(arguments.bundle)
    bundle = verify(read_files(path), str(path))
    float_model = _bytes(Path(arguments.float)) if arguments.float else None
    scores = {}
    for variant in parse(bundle.files["manifest.json"]).variants:
        print(f"{path}: trying the mutants of {variant.name}", file=sys.stderr)  # noqa: T201 - what takes so long
        scores[variant.name] = score(
            bundle.files, variant=variant.name, float_model=float_model, budget_s=arguments.seconds
        )
    if arguments.json:
        text = json.dumps({name: one.as_json() for name, one in scores.items()}, indent=2, ensure_ascii=False) + "\n"
    else:
        text = "\n".join(as_text(name, one) for name, one in scores.items())
    sys.stdout.write(text)
    return 1 if any(one.failures() for one in scores.values()) else 0


def as_text(variant: str, found: MutationScore) -> str:
    """A score as a person reads it."""
    lines = [
        (
            f"{variant}: {found.cases} goldens notice {found.by_answer:.1%} of {found.total} mutants by the answer alone, "
            f"{found.by_stages:.1%} stage by stage"
        ),
        f"{'class':<15}{'mutants':>8}{'by answer':>11}  first noticed",
    ]
    for kind in found.kinds:
        stages = ", ".join(f"{stage} {count}" for stage, count in kind.by_stage.items())
        lines.append(f"{kind.kind:<15}{kind.total:>8}{kind.by_answer:>11}  {stages}".rstrip())
    for title, names in (
        ("not noticed by the answer", found.survivors),
        ("seen by a stage, but by the answer within the tolerance", found.tolerated),
        ("equivalent, left out", found.equivalent),
        ("beyond what goldens store, left out", found.beyond),
        ("not judged for want of time", found.unjudged),
    ):
        lines += [f"{title}:", *(f"  {name}" for name in names)] if names else []
    lines += [f"bar not met: {line}" for line in found.failures()] or ["bar met"]
    return "\n".join(lines) + "\n"


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(
            subject="--float", found=f"{path}: {error.strerror or error}", expected="an ONNX file that can be read",
            todo="give the float32 model the bundle was quantized from, or leave it out",
        ) from error  # fmt: skip
