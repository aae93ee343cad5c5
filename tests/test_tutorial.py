"""docs/tutorial.md from its first block to its last, as a reader types it; what it prints is what it says."""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.test_readme import _BLOCK, _EXITS, _environment, checkout

__all__ = ["checkout"]  # a fixture, asked for by name

ROOT = Path(__file__).parents[1]
PATIENCE_S = 120


class Said(NamedTuple):
    """What a command printed."""

    out: str
    err: str


def _run(words: list[str], folder: Path, code: int) -> Said:
    done = subprocess.run(
        words, cwd=folder, env=_environment(folder), capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return Said(done.stdout, done.stderr)


def test_every_block_in_its_order(checkout: Path) -> None:
    printed = ""
    seen = []
    said: dict[str, Said] = {}
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    for block in _BLOCK.finditer(page):
        kind, text = block["kind"], block["text"]
        seen.append(kind)
        assert not block["note"]
        if kind == "sh":
            for line in text.splitlines():
                stated = _EXITS.search(line)
                said[line] = _run(["sh", "-c", line], checkout, int(stated[1]) if stated else 0)
        elif kind == "python":
            printed = _run([sys.executable, "-c", text], checkout, 0).out
        elif kind == "toml":
            named = re.match(r"# (mine/[\w.]+)\n", text)
            assert named, text
            (checkout / named[1]).write_text(text, encoding="utf-8")
        else:
            assert printed == text
    assert (seen.count("sh"), seen.count("python"), seen.count("toml"), seen.count("")) == (12, 2, 4, 2)
    _as_the_text_says(page, said)


def _as_the_text_says(page: str, said: dict[str, Said]) -> None:
    """What stands in the prose of a command before it is what the command did."""
    [figures] = re.findall(r"The build prints `(.+?)`", page)
    assert any(figures in one.err + one.out for line, one in said.items() if line.endswith("--out mine/dewpoint-int8"))
    answers = [len(one.out.splitlines()) for line, one in said.items() if "station_us_units.csv" in line]
    assert answers == [169, 169]
    [mistakes] = [one.err.splitlines() for line, one in said.items() if "mine/mistakes.toml   #" in line]
    assert len(mistakes) == 2
