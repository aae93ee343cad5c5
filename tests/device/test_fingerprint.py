"""The parts of a fingerprint, and what changed told in words."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.device.fingerprint import cache_key, changed, fingerprint
from edge_runtime.device.probe import Machine, probe
from edge_runtime.device.profiles import load_profile
from edge_runtime.spec.device_profile import DeviceProfile, ProviderChoice
from tests.device import trees

PROFILE = load_profile("generic_x86", Machine(), [Path(__file__).parents[2] / "device_profiles"])
OPENVINO = ProviderChoice(name="OpenVINOExecutionProvider", options={"device_type": "GPU", "precision": "FP32"})
NAMES: dict[str, Any] = {
    "runtime_version": "0.1.0",
    "ort_version": "1.32.0",
    "choice": OPENVINO,
    "profile": PROFILE,
    "bundle_digest": "a" * 64,
    "config_digest": "b" * 64,
}


def _options(**options: str) -> ProviderChoice:
    return OPENVINO.model_copy(update={"options": options})


def _profile(**keys: object) -> DeviceProfile:
    return PROFILE.model_copy(update=keys)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return probe(trees.vnni(tmp_path))


def test_it_is_the_same_every_time(machine: Machine) -> None:
    one = fingerprint(machine, **NAMES)
    assert one == fingerprint(machine, **NAMES)
    assert len(one["combined"]) == 64
    assert changed(one, one) == []


def test_what_cannot_change_a_number_is_not_in_it(machine: Machine) -> None:
    other = replace(machine, boot_id="other", memory_available_mb=1, clock_synchronised=False)
    assert fingerprint(machine, **NAMES) == fingerprint(other, **NAMES)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("runtime_version", "0.2.0", "edge-runtime 0.1.0 -> 0.2.0"),
        ("ort_version", "1.33.0", "onnxruntime 1.32.0 -> 1.33.0"),
        ("choice", ProviderChoice(name="CPUExecutionProvider"), "provider OpenVINOExecutionProvider -> CPUExecutionProvider"),
        ("choice", None, "provider OpenVINOExecutionProvider -> none"),
        ("choice", _options(device_type="CPU", precision="FP32"),
         "options device_type=GPU precision=FP32 -> device_type=CPU precision=FP32"),
        ("choice", OPENVINO.model_copy(update={"allowed_elsewhere": 0.25}),
         "options device_type=GPU precision=FP32 -> device_type=GPU precision=FP32 allowed_elsewhere=0.25"),
        ("choice", _options(), "options device_type=GPU precision=FP32 -> none"),
        ("profile", _profile(intra_threads=4), "threads 1 -> 4"),
        ("profile", _profile(variant="cpu_int8"), "variant the first that fits -> cpu_int8"),
        ("bundle_digest", "c" * 64, "bundle aaaaaaaaaaaa -> cccccccccccc"),
        ("config_digest", "c" * 64, "configuration bbbbbbbbbbbb -> cccccccccccc"),
    ],
)  # fmt: skip
def test_every_named_part_counts_and_alone(machine: Machine, name: str, value: object, sentence: str) -> None:
    before = fingerprint(machine, **NAMES)
    after = fingerprint(machine, **{**NAMES, name: value})
    assert before["combined"] != after["combined"]
    assert changed(before, after) == [sentence]
    assert (cache_key(before) == cache_key(after)) == (name == "config_digest")


def test_what_changes_no_number_of_a_session_is_not_in_it(machine: Machine) -> None:
    before = fingerprint(machine, **NAMES)
    other = _profile(name="another", description="x", latency_p99_ms=1.0, memory_mb=1, onnxruntime="elsewhere")
    choice = OPENVINO.model_copy(update={"cache": True, "options": dict(reversed(OPENVINO.options.items()))})
    assert fingerprint(machine, **{**NAMES, "profile": other, "choice": choice}) == before


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("kernel", "6.1.2", "kernel 6.1.0-30-amd64 -> 6.1.2"),
        ("firmware", None, "firmware Example Inc. 1.4.2 -> unknown"),
        ("isa", frozenset({"sse4_1", "avx2", "avx512f", "avx_vnni"}), "features lost avx512_vnni, gained avx_vnni"),
        ("isa", None, "features avx2 avx512_vnni avx512f sse4_1 -> unknown"),
        ("cpu_model", "Other", "processor Example CPU @ 2.00GHz -> Other"),
        ("glibc", "2.36", "glibc unknown -> 2.36"),
        ("architecture", "aarch64", "architecture x86_64 -> aarch64"),
        ("device_tree_model", "Board", "board unknown -> Board"),
        ("driver", "i915", "driver unknown -> i915"),
        ("device", "8086:9a49", "device unknown -> 8086:9a49"),
    ],
)
def test_a_change_is_told_in_words(machine: Machine, field: str, value: object, sentence: str) -> None:
    before = fingerprint(machine, **NAMES)
    after = fingerprint(replace(machine, **{field: value}), **NAMES)
    assert changed(before, after) == [sentence]
    assert before["combined"] != after["combined"]


def test_digests_are_shortened_and_other_releases_parts_are_told() -> None:
    before = {"bundle": "a" * 64, "gone": "x"}
    after = {"bundle": "b" * 64, "come": "y"}
    assert changed(before, after) == [
        "bundle aaaaaaaaaaaa -> bbbbbbbbbbbb",
        "come not recorded -> y",
        "gone x -> not recorded",
    ]
