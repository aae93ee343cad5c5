"""Draws faults, lets the self-test refuse them and `explain` find them, and holds what is told against where they were put."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import onnx

from edge_runtime.author import exact
from edge_runtime.author.mutate_subject import open_subject
from edge_runtime.bundle.write import write_directory
from edge_runtime.cli import main
from edge_runtime.engine import session as engine
from edge_runtime.spec.manifest import encode, parse
from edge_runtime.spec.providers import CPU
from edge_runtime.spec.report_file import ReportFile
from tests.author import mutate_bundles
from tests.author.bisect_faults import OTHER_PROVIDER, Change, Fault, Stage, faults
from tests.rig.bundles import ROOT, files_of, write_with

_PROFILE = f"""
schema = "edge-runtime/profile/1"
name = "other"
description = "a provider that stands in for another's"
architectures = ["x86_64", "aarch64"]
intra_threads = 1
onnxruntime = "the tests"
[[providers]]
name = "{OTHER_PROVIDER}"
"""
_STAGE_OF = {
    "preprocessing": "one of three, preprocessing", "model": "two of three, the model",
    "postprocessing": "three of three, postprocessing",
}  # fmt: skip


@dataclass(slots=True)
class Trial:
    """What came of all faults: how many were told right, what was not, and why faults were drawn again."""

    count: int = 0
    stages: int = 0
    nodes: int = 0
    wrong: list[str] = field(default_factory=list)
    again: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        """The figures, and each fault that was told wrongly."""
        again = ", ".join(f"{why} {count}" for why, count in sorted(self.again.items())) or "none"
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kinds.items()))
        figures = f"stage {self.stages} of {self.count}, node {self.nodes} of {self.count}"
        return "\n".join([figures, f"classes: {kinds}", f"drawn again: {again}", *self.wrong])


def trial(seed: int, of_each_stage: int, folder: Path, told: Callable[[], str]) -> Trial:
    """Plant ``of_each_stage`` faults that a golden refuses in each stage; ``told`` gives what was printed since the last call."""
    found, random_ = Trial(), random.Random(seed)
    pools = {path: list(faults(open_subject(files_of(path)))) for path in _bundles(folder)}
    for path in pools:
        assert main(["selftest", "--bundle", str(path), "--tier", "required"]) == 0, (
            f"{path} is refused without any fault"
        )
    for stage in get_args(Stage):
        drawn = _drawn(pools, stage, random_)
        wanted = found.count + of_each_stage
        while found.count < wanted:
            path, fault = next(drawn)
            _try(path, fault, folder / f"{stage}{found.count}_{found.again.total()}", told, found)
    return found


def _bundles(folder: Path) -> list[Path]:
    """Those that are shipped, and the tests' own for what those lack: a normalization, a preprocess.onnx, two states."""
    shipped = sorted(path for path in (ROOT / "bundles").iterdir() if path.is_dir())
    for name, make in mutate_bundles.EVERY.items():
        made = make()
        manifest = parse(made["manifest.json"])
        (variant,) = manifest.variants
        opset = next(one.version for one in onnx.load_model_from_string(made[variant.model]).opset_import)
        told = manifest.model_copy(update={"variants": (variant.model_copy(update={"opsets": {"ai.onnx": opset}}),)})
        write_directory(made | {"manifest.json": encode(told)}, folder / name)
    return [*shipped, *(folder / name for name in mutate_bundles.EVERY)]


def _drawn(pools: dict[Path, list[Fault]], stage: Stage, random_: random.Random) -> Iterator[tuple[Path, Fault]]:
    """Class, bundle and place, each by chance; no fault twice."""
    left: dict[str, dict[Path, list[Fault]]] = {}
    for path, pool in pools.items():
        for fault in pool:
            if fault.stage == stage:
                left.setdefault(fault.kind, {}).setdefault(path, []).append(fault)
    while left:
        kind = random_.choice(sorted(left))
        path = random_.choice(sorted(left[kind]))
        pool = left[kind][path]
        yield path, pool.pop(random_.randrange(len(pool)))
        if not pool:
            del left[kind][path]
        if not left[kind]:
            del left[kind]


def _try(path: Path, fault: Fault, folder: Path, told: Callable[[], str], found: Trial) -> None:
    folder.mkdir()
    report, profile = folder / "report.json", folder / "other.toml"
    profile.write_text(_PROFILE)
    tested = path if fault.corrupt else write_with(path, folder / path.name, fault.files())
    more = ["--profile", str(profile)] if fault.corrupt else []
    with miscomputing(fault.corrupt):
        main(["selftest", "--bundle", str(tested), "--json", str(report), *more])
        (boot,) = ReportFile.model_validate_json(report.read_bytes()).boots
        failed = next((check.id for check in boot.checks if check.status == "fail" and check.tier == "required"), None)
        if failed is None or not failed.startswith("golden_"):
            found.again["no golden notices it" if failed is None else f"refused before the goldens ({failed})"] += 1
            return
        told()
        against = [] if fault.corrupt else ["--against", str(path)]
        main(["explain", str(report), "--bundle", str(tested), *against])
    _judge(f"{path.name}, {fault.kind}: {fault.name}", fault, told(), found)


def _judge(name: str, fault: Fault, text: str, found: Trial) -> None:
    """Right is a stage that is the only one named, and a place that is the one where the fault was put."""
    found.count += 1
    found.kinds[f"{fault.stage} {fault.kind}"] += 1
    stages = re.findall(r"^  (?:stage  |first wrong  stage) +(\w+ of three, (?:the )?\w+)", text, re.MULTILINE)
    place = re.search(r"^  first wrong  stage [^:]+: (.*(?:\n {15}.*)*)$", text, re.MULTILINE)
    right = set(stages) == {_STAGE_OF[fault.stage]}
    named = place is not None and place[1].startswith(fault.place) and all(word in place[1] for word in fault.words)
    found.stages += right
    found.nodes += named
    if not right or not named:
        lines = [
            line
            for line in text.splitlines()
            if line.startswith(("  stage", "  found", "  first wrong", "               "))
        ]
        found.wrong.append(f"{name}: put at {fault.stage}, {fault.place} {fault.words}, told\n" + "\n".join(lines))


@contextmanager
def miscomputing(corrupt: Change | None) -> Iterator[None]:
    """A provider that computes on the CPU what ``corrupt`` makes of each model it is given; the CPU's own stays right."""
    if corrupt is None:
        yield
        return
    real = engine.open_session

    def opened(model: bytes, *, provider: str = CPU, **more: Any) -> engine.Session:
        if provider == CPU:
            return real(model, provider=provider, **more)
        changed = onnx.load_model_from_string(model)
        corrupt(changed)
        session = real(changed.SerializeToString(), takes_nan=more.get("takes_nan", False))
        session.placement.clear()
        session.placement[provider] = 1
        return session

    with patch.object(engine, "open_session", opened), patch.object(exact, "open_session", opened):
        yield
