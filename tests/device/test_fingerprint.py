"""The parts of a fingerprint, and what changed told in words."""

from dataclasses import replace
from pathlib import Path

import pytest

from edge_runtime.device.fingerprint import changed, fingerprint
from edge_runtime.device.probe import Machine, probe
from tests.device import trees

NAMES = {
    "runtime_version": "0.1.0",
    "ort_version": "1.32.0",
    "provider": "CPUExecutionProvider",
    "bundle_digest": "a" * 64,
    "config_digest": "b" * 64,
}


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


@pytest.mark.parametrize("name", NAMES)
def test_every_named_part_counts(machine: Machine, name: str) -> None:
    before = fingerprint(machine, **NAMES)
    after = fingerprint(machine, **{**NAMES, name: "c" * 64})
    assert before["combined"] != after["combined"]
    assert len(changed(before, after)) == 1


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
