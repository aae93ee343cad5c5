"""docs/tutorial.md from its first block to its last, as a reader types it; what it prints is what it says."""

import re
import subprocess
import sys
from pathlib import Path

from tests.test_readme import _BLOCK, _EXITS, _environment, checkout

__all__ = ["checkout"]  # a fixture, asked for by name

ROOT = Path(__file__).parents[1]
PATIENCE_S = 120


def _run(words: list[str], folder: Path, code: int) -> str:
    done = subprocess.run(
        words, cwd=folder, env=_environment(folder), capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == code, f"{words}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


def test_every_block_in_its_order(checkout: Path) -> None:
    printed = ""
    seen = []
    for block in _BLOCK.finditer((ROOT / "docs/tutorial.md").read_text(encoding="utf-8")):
        kind, text = block["kind"], block["text"]
        seen.append(kind)
        assert not block["note"]
        if kind == "sh":
            for line in text.splitlines():
                stated = _EXITS.search(line)
                _run(["sh", "-c", line], checkout, int(stated[1]) if stated else 0)
        elif kind == "python":
            printed = _run([sys.executable, "-c", text], checkout, 0)
        elif kind == "toml":
            named = re.match(r"# (mine/[\w.]+)\n", text)
            assert named, text
            (checkout / named[1]).write_text(text, encoding="utf-8")
        else:
            assert printed == text
    assert (seen.count("sh"), seen.count("python"), seen.count("toml"), seen.count("")) == (8, 2, 2, 2)
