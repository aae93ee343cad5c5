"""docs/troubleshooting.md has a row for every reason and every check the code knows, and none that it does not."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import edge_runtime
from edge_runtime.commands import COMMANDS
from edge_runtime.run.boot import boot
from edge_runtime.run.causes import STAGES
from edge_runtime.run.selftest import PORTS
from edge_runtime.run.setting import make_setting
from tests.rig.bundles import DEWPOINT, ROOT

PACKAGE = Path(edge_runtime.__file__).parent
PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
_MAKERS = {"Rejection", "_rejection", "Unusable"}
_COUNTED = {"refused", "rejected"}


def _rows(title: str) -> list[str]:
    part = PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(r"^\| `([^`]+)` \|", part, flags=re.MULTILINE)


def _reasons() -> Iterator[str]:
    """Every reason that is written anywhere in the device's own code."""
    for path in PACKAGE.rglob("*.py"):
        if "author" in path.relative_to(PACKAGE).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in _MAKERS:
                first = next((one for one in node.args[:2] if isinstance(one, ast.Constant)), None)
                if first is not None and first.value != "answer":
                    yield str(first.value)
            elif isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") in _COUNTED:
                yield from (str(one.value) for one in [node.slice] if isinstance(one, ast.Constant))


def test_every_reason_has_its_row_and_every_row_its_reason() -> None:
    rows = _rows("A sample or an answer was refused")
    assert len(rows) == len(set(rows))
    assert set(rows) == set(_reasons())
    assert len(rows) > 20


def test_every_check_has_its_row_in_its_order() -> None:
    rows = _rows("A bundle is refused")
    assert set(rows) == set(STAGES)
    checks = [check.id for check in boot(DEWPOINT, make_setting(), inject="provider_cache").report.checks]
    assert rows == [*checks, PORTS]


def test_what_a_command_says_is_what_it_says() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    for text in _rows("A command says no"):
        plain = text.removesuffix("; expected ...").removeprefix("found TODO") or "TODO"
        assert plain in code, text


def test_each_dropped_reason_is_named() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "run").rglob("*.py"))
    for reason in re.findall(r'answers_dropped\["(\w+)"\]', code):
        assert f"`{reason}`" in PAGE


def test_the_table_of_questions_names_every_command() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| .+\? \| (.+) \|$|^\| Serve\. \| (.+) \|$", page, flags=re.MULTILINE)
    named = {word for cell in cells for word in re.findall(r"`([^`]+)`", "".join(cell))}
    commands = {command.name for command in COMMANDS}
    assert commands <= {next((one for one in commands if re.match(rf"{one}( |$)", word)), "") for word in named}
