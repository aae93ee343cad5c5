"""The boot that ends a build: what a device would refuse is refused, but for the time, which is the device's."""

import json

import pytest

from edge_runtime.author.trial import boot_failures
from tests.rig.bundles import FROST, files_of, manifest_of


@pytest.mark.parametrize(
    ("need", "value", "failures"),
    [
        ("latency_p99_ms", 50.0, ()),
        ("latency_p99_ms", 1e-6, ()),
        ("memory_mb", 1e9, ("boot, headroom: memory this bundle still needs: found ",)),
    ],
)
def test_a_build_holds_itself_to_memory_and_leaves_the_time_to_the_device(
    need: str, value: float, failures: tuple[str, ...]
) -> None:
    raw = manifest_of(FROST)
    raw["needs"][need] = value
    found = boot_failures(files_of(FROST) | {"manifest.json": json.dumps(raw).encode()})
    assert len(found) == len(failures)
    assert all(one.startswith(start) for one, start in zip(found, failures, strict=True))
