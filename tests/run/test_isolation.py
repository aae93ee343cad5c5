"""A boot whose sessions have processes of their own: whatever ends one is a failed check, and the same checks pass else."""

import os
import signal
import sys
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from edge_runtime.engine import isolate
from edge_runtime.errors import DeviceError
from edge_runtime.run import checks, latency, memory_checks
from edge_runtime.run.boot import Booted, Setting, boot
from edge_runtime.run.goldens import feeds_of
from edge_runtime.run.live import Live
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.device_profile import Isolation, ProviderChoice
from tests.rig.bundles import DEWPOINT
from tests.rig.program import PATIENCE_S, ROOT


def isolated(**changed: Any) -> Setting:
    found = make_setting()
    limits = Isolation(**({"memory_mb": 256, "timeout_s": PATIENCE_S} | changed))
    return replace(found, profile=found.profile.model_copy(update={"isolation": limits}))


def failed(booted: Booted) -> dict[str, str]:
    return {one.id: one.measured for one in booted.report.checks if one.status == "fail" and one.tier == "required"}


def by_id(booted: Booted) -> dict[str, Any]:
    return {one.id: one for one in booted.report.checks}


def test_the_same_checks_pass() -> None:
    here, apart = boot(DEWPOINT, make_setting()), boot(DEWPOINT, isolated())
    assert apart.ready is not None
    assert {one.id: one.status for one in apart.report.checks} == {one.id: one.status for one in here.report.checks}
    assert by_id(apart)["provider"].measured.endswith(", in a process of its own")
    assert "process of its own" not in by_id(here)["provider"].measured


def test_a_process_that_crashes_at_its_start_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    crash = "import os; os.abort()"
    monkeypatch.setattr(isolate, "program", lambda: [sys.executable, "-c", crash])
    found = boot(DEWPOINT, isolated())
    assert found.ready is None
    assert failed(found) == {"provider": "the session's own process: found an end by SIGABRT"}
    assert by_id(found)["golden_output"].status == "skip"


def test_a_process_that_hangs_at_its_start_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "program", lambda: [sys.executable, "-c", "import time; time.sleep(1e6)"])
    found = boot(DEWPOINT, isolated(start_s=0.2))
    assert failed(found) == {"provider": "the session's own process: found no answer within 0.2 s"}


def test_a_crash_in_the_goldens_is_a_failed_check_and_the_others_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    call = isolate.IsolatedSession.__call__

    def crash(self: isolate.IsolatedSession, feeds: Any) -> Any:
        with suppress(ProcessLookupError):  # it has crashed at an earlier call
            os.kill(self._child.pid, signal.SIGBUS)
        return call(self, feeds)

    monkeypatch.setattr(isolate.IsolatedSession, "__call__", crash)
    found = boot(DEWPOINT, isolated())
    assert found.ready is None
    assert failed(found)["golden_output"].startswith("the session's own process: found an end by SIGBUS")
    assert by_id(found)["golden_answer"].status == "pass"


def test_after_a_crash_the_next_provider_of_the_list_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are the CPU here; the first process of them crashes."""
    begin, started = isolate.program, []

    def program() -> list[str]:
        started.append(1)
        return [sys.executable, "-c", "import os; os.abort()"] if len(started) == 1 else begin()

    monkeypatch.setattr(isolate, "program", program)
    setting = isolated()
    both = tuple(ProviderChoice(name="CPUExecutionProvider") for _ in range(2))
    found = boot(DEWPOINT, replace(setting, profile=setting.profile.model_copy(update={"providers": both})))
    assert found.ready is not None
    choice = by_id(found)["provider_choice"]
    assert choice.status == "fail"
    assert "was refused by provider, the session's own process: found an end by SIGABRT" in choice.measured


def test_a_process_that_has_outgrown_its_profile_fails_its_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    found = make_setting()
    ready = boot(DEWPOINT, replace(found, profile=found.profile.model_copy(update={"memory_mb": 1 << 16}))).ready
    assert ready is not None
    live = Live(ready, lambda: pytest.fail("not asked for"), lambda _: None)
    assert live.probe() == ""
    monkeypatch.setattr(memory_checks, "resident_mb", lambda: 70_000.0)
    with pytest.raises(DeviceError, match="memory of this process: found 70000 MB; expected at most 68719 MB; raise"):
        live.probe()
    monkeypatch.setattr(memory_checks, "resident_mb", lambda: None)  # a system that does not tell
    assert live.probe() == ""


def test_memory_and_waiting_of_the_session_s_process_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks: list[list[int]] = []
    hot = latency.kernel_clock

    def clock(processes: Any) -> Any:
        clocks.append(list(processes))
        return hot(processes)

    monkeypatch.setattr(latency, "kernel_clock", clock)
    ready = boot(DEWPOINT, isolated()).ready
    assert ready is not None
    session = ready.model.infer
    assert isinstance(session, isolate.IsolatedSession)
    pid = session._child.pid
    assert [pid in processes for processes in clocks] == [True]
    profile = ready.profile.model_copy(update={"memory_mb": 1 << 16})
    taken = float(memory_checks.memory_limit(profile, inject=False)[1].split(" MB")[0])
    assert taken >= 60 + 30, "the tests' own 60 MB, and a process that holds onnxruntime"
    assert pid in checks.session_processes(profile)
    session.end()
    assert pid not in checks.session_processes(profile)
    with pytest.raises(DeviceError, match="the session's own process: found an end before another was started"):
        session({})


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_session_whose_process_has_crashed_is_made_anew_for_the_same_call(number: int) -> None:
    ready = boot(DEWPOINT, isolated()).ready
    assert ready is not None
    session = ready.model.infer
    assert isinstance(session, isolate.IsolatedSession)
    said: list[str] = []
    live = Live(ready, lambda: boot(DEWPOINT, isolated()), said.append)
    feeds = feeds_of(ready.model, {name: values[:1] for name, values in ready.goldens.tensors.items()})
    before = live.model.infer(feeds)
    os.kill(session._child.pid, number)
    after = live.model.infer(feeds)
    assert {name: values.tolist() for name, values in after.items()} == {
        name: values.tolist() for name, values in before.items()
    }
    (line,) = said
    assert f"found an end by {signal.Signals(number).name}" in line


def test_a_session_made_anew_has_the_memory_of_the_one_before() -> None:
    """A process that has outgrown the profile must not stand in the way of the one that replaces it."""
    ready = boot(DEWPOINT, isolated()).ready
    assert ready is not None
    session = ready.model.infer
    assert isinstance(session, isolate.IsolatedSession)
    seen: list[bool] = []

    def again() -> Booted:
        seen.append(session._child.pid in checks.session_processes(ready.profile))
        return boot(DEWPOINT, isolated())

    live = Live(ready, again, lambda _: None)
    live.rebuild("it has grown")
    assert seen == [False]
    assert live.probe() == ""


def test_the_table_of_the_documentation_is_the_models() -> None:
    page = (ROOT / "docs" / "device_profiles.md").read_text(encoding="utf-8")
    part = page.split("## A process of its own\n")[1].split("\n## ")[0]
    rows = [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")]
    assert rows == list(Isolation.model_fields)
