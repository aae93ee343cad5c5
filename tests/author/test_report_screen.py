"""The report in a real Chromium: what is drawn, on a desk and on a phone, and that nothing is cut off or asked for."""

import html
import os
import re
import shutil
import subprocess
from pathlib import Path

import cv2
import numpy as np
import pytest

from edge_runtime.author.report import render
from edge_runtime.author.report_facts import ReportFacts
from tests.author.report_facts import facts_of, whole
from tests.rig.need import need

pytestmark = pytest.mark.long

QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--force-device-scale-factor=1",
)  # fmt: skip
PATIENCE_S = 120
AMBER, PAPER = (238, 249, 255), (255, 255, 255)  # as OpenCV has colours: blue, green, red
FACTS = {"frost": lambda: facts_of("frost"), "dewpoint": lambda: facts_of("dewpoint"), "whole": whole}
MEASURE = """<script>onload = () => {
const page = frames[0].document, root = page.documentElement;
const cut = [...page.querySelectorAll('h1,h2,p,dd,li,figure,svg text')].filter(one => {
  const box = one.getBoundingClientRect(); return box.right > root.clientWidth + 1 || box.left < -1; });
const small = [...page.querySelectorAll('p,li,td,th,figcaption,dt')].filter(
  one => parseFloat(page.defaultView.getComputedStyle(one).fontSize) < 12);
document.title = JSON.stringify([root.scrollWidth, root.clientWidth, root.scrollHeight, cut.length, small.length,
  page.defaultView.performance.getEntriesByType('resource').length]);
}</script>"""


@pytest.fixture
def chromium(tmp_path: Path):
    found = shutil.which("chromium") or shutil.which("google-chrome")
    need(found, "chromium (apt-get install chromium)")

    def run(*words: str) -> str:
        command = [found, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", *words]
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        return ran.stdout

    return run


def framed(facts: ReportFacts, width: int, height: int) -> str:
    """The page in a frame as wide as a phone: a window of its own is never as narrow."""
    inner = html.escape(render(facts).decode())
    frame = f'<iframe style="border:0;width:{width}px;height:{height}px" srcdoc="{inner}"></iframe>'
    return f'<!doctype html><meta charset="utf-8"><body style="margin:0;background:#fff">{frame}{MEASURE}'


def measured(dom: str) -> list[int]:
    return [int(one) for one in re.search(r"<title>\[(.*?)\]", dom)[1].split(",")]


def test_what_is_cut_off_or_too_small_would_be_seen(chromium, tmp_path: Path) -> None:
    path = tmp_path / "frame.html"
    spoilt = html.escape('<main>\n<p style="min-width:2000px">cut</p><p style="font-size:9px">small</p>')
    path.write_text(framed(facts_of("dewpoint"), 390, 900).replace(html.escape("<main>"), spoilt, 1))
    wide, seen, _, cut, small, _ = measured(chromium("--dump-dom", path.as_uri()))
    assert wide > 2000 > seen
    assert (cut, small) == (1, 1)


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("width", [1100, 390])
def test_nothing_is_cut_off_too_small_or_asked_for(chromium, tmp_path: Path, name: str, width: int) -> None:
    path = tmp_path / "frame.html"
    path.write_text(framed(FACTS[name](), width, 900))
    wide, seen, high, cut, small, asked = measured(chromium("--dump-dom", path.as_uri()))
    assert (wide, cut, small, asked) == (seen, 0, 0, 0)
    assert seen == width
    assert high > 2000


@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("width", [1100, 390])
def test_what_is_drawn(chromium, tmp_path: Path, name: str, width: int) -> None:
    path, shot, height = tmp_path / "frame.html", tmp_path / "shot.png", 3400
    path.write_text(framed(FACTS[name](), width, height))
    chromium(f"--screenshot={shot}", f"--window-size={max(width, 600)},{height}", path.as_uri())
    drawn = cv2.imread(str(shot))[:height, :width]
    assert drawn.shape == (height, width, 3)

    assert (drawn == PAPER).all(axis=2).mean() > 0.6, "dark text on a light page"
    assert (drawn.max(axis=2) < 90).mean() > 0.005, "text"
    limits = np.flatnonzero((np.abs(drawn.astype(int) - AMBER).max(axis=2) <= 2).sum(axis=1) > 20)
    # Lines and dots are a pixel or two wide, and mixed with the paper.
    bluish = drawn[:, :, 0].astype(int) - drawn[:, :, 2] > 40
    charts = np.flatnonzero(bluish.sum(axis=1) > 3)
    assert len(limits) > 30, "the limits' box"
    assert limits[0] < 420, "the limits come first"
    assert len(charts) > 100, "a picture's bars, dots or lines"
    assert limits[-1] < charts[0], "the limits stand above the pictures"
