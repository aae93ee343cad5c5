"""Runs what only a machine with an NVIDIA GPU can show, and writes one report; it never calls anything checked that was not.

For CUDA and TensorRT, each bundle in turn: a whole self-test under that provider alone, first with nothing cached and once
more, where each node was put, and how long an inference takes there and on the CPU. Then drills: a provider that fails must
be refused in one line. Bundles have no tolerance for these providers until somebody has run them there, so copies are given
a generous one (--atol, in the model's own output units): the differences that are measured are what the report is for.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from edge_runtime.bundle.write import write_directory

ROOT: Final = Path(__file__).parents[1]
NO_GPU: Final = 77
NOTHING: Final = "no GPU here: nothing was checked"
PROVIDERS: Final = ("CUDAExecutionProvider", "TensorrtExecutionProvider")
CPU: Final = "CPUExecutionProvider"
# As the kernel names NVIDIA's devices: on a PC, on a Jetson of JetPack 7, and on older ones.
DEVICES: Final = ("dev/nvidia0", "dev/nvgpu/igpu0/ctrl", "dev/nvhost-gpu")
PATIENCE_S: Final = 1800
PROFILE: Final = """\
schema = "edge-runtime/profile/1"
name = "gpu_check"
description = "scripts/gpu-check"
architectures = ["x86_64", "aarch64"]
onnxruntime = "onnxruntime-gpu"
[[providers]]
name = "{provider}"
{options}
"""
# With it the program has a state folder, where alone a provider may keep files; its line is read by nobody.
DEVICE: Final = """\
schema = "edge-runtime/device/1"
state_dir = "{state}"
[[line]]
name = "none"
bundle = "{bundle}"
source = {{ kind = "stdin" }}
decode = {{ format = "json" }}
channels.air_temperature = {{ field = "t", unit = "Cel" }}
channels.relative_humidity = {{ field = "rh", unit = "%" }}
channels.station_pressure = {{ field = "p", unit = "hPa" }}
sink = [{{ kind = "stdout" }}]
"""
# What each drill puts into the profile, and a part of the line that must refuse it.
DRILLS: Final = (
    ("a device that is not there", 'options = { device_id = "63" }', "CUDAExecutionProvider", "runs nothing here"),
    ("an option with a typo", 'options = { devce_id = "0" }', "CUDAExecutionProvider", "has no option 'devce_id'"),
    ("a provider with a typo", "", "CUDAExecutonProvider", "CUDAExecutionProvider perhaps"),
)


class Outcome(NamedTuple):
    """One run of the program: its exit code, its report where it made one, and the last line it said."""

    code: int
    boot: dict[str, Any]
    said: str
    seconds: float


def main(words: Sequence[str] | None = None, root: Path = Path("/")) -> int:
    """0 where everything passed, 1 where something did not, 77 where there is no GPU and so nothing to say."""
    parser = argparse.ArgumentParser(prog="scripts/gpu-check", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--atol", type=float, default=0.5, help="how far outputs may be from the CPU's (%(default)s)")
    parser.add_argument("--report", type=Path, default=Path("gpu-check.json"), help="where to write (%(default)s)")
    given = parser.parse_args(words)
    if not any((root / name).exists() for name in DEVICES):
        print(NOTHING)
        return NO_GPU
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        bundles = sorted(one.parent for one in (ROOT / "bundles").glob("*/manifest.json"))
        found = list(everything(Path(folder), given.atol, bundles, PROVIDERS))
    doctor = subprocess.run(
        [sys.executable, "-m", "edge_runtime", "doctor", "--json"], capture_output=True, text=True, check=False
    )  # fmt: skip
    report = {"doctor": json.loads(doctor.stdout or "null"), "checks": found}
    given.report.write_text(json.dumps(report, indent=2) + "\n")
    failed = [one for one in found if one["status"] != "pass"]
    print(f"{len(found) - len(failed)} of {len(found)} passed; send {given.report}")
    return 1 if failed else 0


def everything(
    folder: Path, atol: float, bundles: Sequence[Path], providers: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """What was found, as it is found: every bundle on every provider, then the drills."""
    for path in bundles:
        on_cpu = _selftest(folder, path, CPU)
        for provider in providers:
            bundle = folder / f"{path.name}-{provider}"
            if not tolerant(path, bundle, provider, atol):
                yield _told(f"{path.name} on {provider}", "skip", "no variant of it is for this provider: not checked")
                continue
            for state in ("cold", "warm"):
                ran = _selftest(folder, bundle, provider, caches(provider))
                yield _told(
                    f"{path.name} on {provider}, {state}", "pass" if ran.code == 0 else "fail", ran.said,
                    seconds=round(ran.seconds, 2), latency=_measured(ran, "latency"), cpu=_measured(on_cpu, "latency"),
                    placement=_measured(ran, "placement"), off=_measured(ran, "golden_output"), boot=ran.boot,
                )  # fmt: skip
    for what, options, provider, words in DRILLS:
        bundle = folder / "drill"
        tolerant(ROOT / "bundles/dewpoint", bundle, PROVIDERS[0], atol)
        ran = _selftest(folder, bundle, provider, options)
        is_refused = ran.code != 0 and words in f"{ran.said} {json.dumps(ran.boot)}"
        yield _told(f"drill: {what}", "pass" if is_refused else "fail", ran.said)


def caches(provider: str) -> str:
    """What lets TensorRT keep its engines and timings; nothing for any other provider."""
    return "cache = true" if provider == "TensorrtExecutionProvider" else ""


def tolerant(path: Path, to: Path, provider: str, atol: float) -> bool:
    """Write a copy of a bundle that allows ``provider`` to be off by ``atol``; False where no variant is for it at all."""
    files = {one.name: one.read_bytes() for one in path.iterdir()}
    raw = json.loads(files["manifest.json"])
    # CUDA and TensorRT take no asymmetric int8; trees and texts are the CPU's alone.
    raw["variants"] = [
        one for one in raw["variants"]
        if one["precision"] in ("float32", "float16") and not any(name.startswith("TreeEnsemble") for name in one["operators"])
    ]  # fmt: skip
    for one in raw["variants"]:
        one["tolerances"] = {provider: {"kind": "float", "rtol": 0.0, "atol": atol, "evidence": "scripts/gpu-check"}}
    if len(raw["variants"]) == 1 and "variants" in raw.get("must_understand", []):
        raw["must_understand"].remove("variants")
    if raw["variants"]:
        kept = {one[name] for one in raw["variants"] for name in ("model", "goldens")} | {"manifest.json"}
        kept |= {name for name in files if name == "preprocess.onnx"}
        write_directory({name: files[name] for name in kept} | {"manifest.json": json.dumps(raw).encode()}, to)
    return bool(raw["variants"])


def _selftest(folder: Path, bundle: Path, provider: str, options: str = "") -> Outcome:
    profile, device = folder / "gpu_check.toml", folder / "device.toml"
    profile.write_text(PROFILE.format(provider=provider, options=options))
    device.write_text(DEVICE.format(state=folder / "state", bundle=ROOT / "bundles/dewpoint"))
    words = ["selftest", "--bundle", str(bundle), "--profile", str(profile), "--config", str(device)]
    words += ["--tier", "required", "--json", "-"]
    begun = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "edge_runtime", *words], capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    boot = json.loads(ran.stdout)["boots"][0] if ran.stdout.startswith("{") else {}
    said = (ran.stderr.strip().splitlines() or ["nothing said"])[-1]
    return Outcome(ran.returncode, boot, said, time.monotonic() - begun)


def _measured(ran: Outcome, name: str) -> str:
    found = next((one for one in ran.boot.get("checks", ()) if one["id"] == name), None)
    return "not checked" if found is None else re.sub(r"\s+", " ", found["measured"])


def _told(subject: str, status: str, said: str, **facts: Any) -> dict[str, Any]:
    shown = "".join(
        f"; {name} {facts[name]}" for name in ("seconds", "latency", "cpu", "placement", "off") if name in facts
    )
    print(f"{status:5} {subject}: {said}{shown}", flush=True)
    return {"subject": subject, "status": status, "said": said, **facts}


if __name__ == "__main__":
    sys.exit(main())
