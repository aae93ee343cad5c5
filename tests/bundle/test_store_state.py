"""The pointer of the store: what one release wrote another reads, what must be understood is, and each change is one value."""

import json
from pathlib import Path
from typing import Any

import pytest

from edge_runtime.bundle.store_state import (
    Slot,
    StoreState,
    TrialState,
    activated,
    confirmed,
    fallen_back,
    read_state,
    write_state,
)
from edge_runtime.errors import ConfigurationError

A, B, C = "a" * 64, "b" * 64, "c" * 64
NOW = "2026-12-01T08:00:00Z"
# What the first release wrote, byte for byte: whatever comes later has to go on reading it.
FIRST = """{
  "schema": "edge-runtime/store/1",
  "bundles": {
    "frost": {
      "active": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
      "serial": 3,
      "confirmed": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
      "trial": {"stage": "running", "since": "2026-12-01T08:00:00Z", "starts": 2}
    }
  }
}
"""


def _write(folder: Path, text: str) -> None:
    (folder / "store.json").write_text(text)


def test_what_the_first_release_wrote_is_read(tmp_path: Path) -> None:
    _write(tmp_path, FIRST)
    trial = TrialState(since=NOW, starts=2)
    assert read_state(tmp_path).bundles == {"frost": Slot(active=B, serial=3, confirmed=A, trial=trial)}


def test_what_a_later_release_adds_is_kept_and_handed_on(tmp_path: Path) -> None:
    later = json.loads(FIRST)
    later["fleet"] = {"ring": 2}
    later["bundles"]["frost"] |= {"weight": 0.5, "trial": later["bundles"]["frost"]["trial"] | {"asked_by": "mender"}}
    later["bundles"]["frost"]["rolled_back"] = {"digest": C, "reason": "why", "time": NOW, "by": "trial"}
    _write(tmp_path, json.dumps(later))
    state = read_state(tmp_path)
    write_state(tmp_path, state.with_slot("other", Slot(active=A)))
    again: dict[str, Any] = json.loads((tmp_path / "store.json").read_text())
    assert again["fleet"] == {"ring": 2}
    assert again["bundles"]["frost"]["weight"] == 0.5
    assert again["bundles"]["frost"]["trial"]["asked_by"] == "mender"
    assert again["bundles"]["frost"]["rolled_back"]["by"] == "trial"


def test_what_must_be_understood_and_is_not_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, json.dumps(json.loads(FIRST) | {"must_understand": ["rings"]}))
    with pytest.raises(ConfigurationError, match="found rings, which this release does not understand"):
        read_state(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", FIRST.replace("store/1", "store/2"), FIRST.replace(B, "../../etc/passwd"), FIRST.replace(B, B.upper()),
        FIRST.replace('"frost"', '"../frost"'), FIRST.replace('"serial": 3', '"serial": -1'), FIRST[:-20],
        FIRST.replace('"running"', '"lost"'),
    ],
    ids=["empty", "cut", "array", "schema", "path", "upper", "id", "serial", "half", "stage"],
)  # fmt: skip
def test_anything_else_stops_with_what_is_wrong(tmp_path: Path, text: str) -> None:
    _write(tmp_path, text)
    with pytest.raises(ConfigurationError, match=r"store \S+store\.json: found .*; expected the file as"):
        read_state(tmp_path)


def test_a_file_that_cannot_be_read_is_no_empty_store(tmp_path: Path) -> None:
    (tmp_path / "store.json").mkdir()
    with pytest.raises(ConfigurationError, match="run this as the user that serves"):
        read_state(tmp_path)


def test_where_there_is_none_yet_the_store_is_empty(tmp_path: Path) -> None:
    assert read_state(tmp_path) == StoreState()


def test_the_way_of_a_bundle() -> None:
    first = activated(None, A, NOW)
    assert (first.active, first.serial, first.confirmed, first.previous) == (A, 1, None, None)
    assert first.trial == TrialState(since=NOW)
    sure = confirmed(first)
    assert (sure.confirmed, sure.previous, sure.trial) == (A, None, None)
    tried = activated(sure, B, NOW)
    assert (tried.active, tried.serial, tried.confirmed) == (B, 2, A)
    back = fallen_back(tried, "why", NOW)
    assert (back.active, back.serial, back.trial) == (A, 3, None)
    assert back.rolled_back is not None
    assert (back.rolled_back.digest, back.rolled_back.reason) == (B, "why")
    again = confirmed(activated(back, B, NOW))
    assert (again.confirmed, again.previous, again.rolled_back) == (B, A, None)


def test_the_confirmed_bundle_activated_again_is_on_no_trial() -> None:
    slot = activated(activated(confirmed(activated(None, A, NOW)), B, NOW), A, NOW)
    assert (slot.active, slot.trial) == (A, None)
    assert confirmed(slot).previous is None, "a bundle is not what it was before itself"
