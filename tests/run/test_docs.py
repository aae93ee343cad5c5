"""docs/selftest.md names every check, in the order they run."""

import re

from edge_runtime.run.boot import boot
from edge_runtime.run.selftest import PORTS
from edge_runtime.run.setting import make_setting
from tests.rig.bundles import DEWPOINT, ROOT


def test_every_check_is_explained_in_its_order() -> None:
    text = (ROOT / "docs/selftest.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)`(?: \(wanted[^)]*\))? \|", text, flags=re.MULTILINE)
    checks = [check.id for check in boot(DEWPOINT, make_setting(), inject="provider_cache").report.checks]
    assert listed[: len(checks) + 1] == [*checks, PORTS]
