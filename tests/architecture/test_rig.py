"""The rig itself: what a machine lacks is said, never passed over."""

import pytest

from tests.rig.need import need


def test_need_met_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    need(condition=True, what="air")


def test_need_unmet_skips_on_a_desk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs a broker, which this machine lacks"):
        need(condition=False, what="a broker")


def test_need_unmet_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="needs a broker, which this machine lacks"):
        need(condition=False, what="a broker")
