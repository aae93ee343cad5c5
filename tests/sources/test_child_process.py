"""A supervised program: its output, its end, its start again, what it says on standard error; real processes."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edge_runtime.errors import ConfigurationError
from edge_runtime.sources import child_process, make_source
from edge_runtime.sources.child_log import LOG_LINES, LOG_NS, ChildLog
from edge_runtime.sources.child_process import UNGUARDED, ChildProcess
from edge_runtime.spec.source import CommandSource
from tests.rig.clock import HandClock
from tests.rig.need import need
from tests.rig.wait import until

TAIL = "import time; sys.stdout.flush(); time.sleep(60)"


class Run:
    """A source whose program is Python's ``code``; leaving the block stops it."""

    def __init__(self, folder: Path, code: str, *words: str, **keys: object) -> None:
        self.log: list[str] = []
        self.chunks: list[object] = []
        self.wake = threading.Event()
        self.clock = HandClock()
        environment = keys.pop("environment", os.environ)
        spec = CommandSource.model_validate(
            {"command": [sys.executable, "-c", f"import os, sys\n{code}", *words]} | keys
        )
        self.source = ChildProcess(
            spec, folder, wall_ns=self.clock.wall_ns, mono_ns=self.clock.mono_ns, log=self.log.append,
            jitter=lambda: 0.01, environment=environment,
        )  # fmt: skip

    def __enter__(self):
        self.source.start(self.wake)
        return self

    def __exit__(self, *_):
        self.source.stop()

    def until(self, happened, what):
        def taken():
            self.chunks += self.source.take()
            return happened()

        until(taken, self.wake, what)

    @property
    def text(self):
        return b"".join(one.data for one in self.chunks)

    @property
    def pid(self):
        return int(self.source.status().partition("process ")[2].partition(";")[0])


def is_alive(pid):
    """Whether it runs, a zombie not counted."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def has_zombie():
    mine = f"/proc/{os.getpid()}/task"
    children = [one for task in Path(mine).iterdir() for one in (task / "children").read_text().split()]
    return any(Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0] == "Z" for one in children)


def test_what_it_writes_are_the_bytes(tmp_path):
    with Run(tmp_path, f"sys.stdout.write('1,2\\n3,4\\n'); {TAIL}") as run:
        run.until(lambda: run.text == b"1,2\n3,4\n", "the bytes")
        assert run.chunks[0].anew
        assert not run.chunks[0].fresh
        assert run.source.status().startswith("running since 2025-10-09T08:53:20Z, process ")
        assert (run.source.reopened, run.source.ended) == (0, False)
        pid = run.pid
        assert is_alive(pid)
    assert not is_alive(pid)
    assert run.source.status() == "stopped"
    assert run.source.ended
    run.source.stop()


def test_it_is_started_again_and_its_end_is_told(tmp_path):
    with Run(tmp_path, "sys.stdout.write('half'); sys.stdout.flush(); os._exit(3)") as run:
        run.until(lambda: run.source.reopened >= 3, "three ends")
        run.until(lambda: run.text.startswith(b"halfhalfhalf"), "their output")
        assert "; it ended 3 times, last with exit code 3 at 2025-10-09T08:53:20Z" in run.source.status() or (
            run.source.reopened > 3
        )
        assert not has_zombie()
    assert [one.anew for one in run.chunks] == [True] * len(run.chunks), "no half line is joined to the next start"
    assert not has_zombie()


def test_a_signal_is_told_by_its_name(tmp_path):
    with Run(tmp_path, "os.kill(os.getpid(), 11)") as run:
        run.until(
            lambda: "it ended 1 time, last by SIGSEGV" in run.source.status() or run.source.reopened > 1, "the end"
        )
        assert "by SIGSEGV" in run.source.status()


def test_the_wait_grows_to_its_limit_and_begins_anew_after_a_long_life(tmp_path, monkeypatch):
    waits = []
    with Run(tmp_path, "print(1)", restart_max_s=0.5) as run:
        monkeypatch.setattr(run.source._thread.stopping, "wait", waits.append)
        run.until(lambda: len(waits) >= 5, "five starts")
        assert [round(one * 100, 1) for one in waits[:5]] == [0.1, 0.2, 0.4, 0.5, 0.5]
        real = run.source._spawn

        def long_life():
            run.clock.advance(1)
            return real()

        monkeypatch.setattr(run.source, "_spawn", long_life)
        count = len(waits)
        run.until(lambda: len(waits) >= count + 3, "three more")
        assert [round(one * 100, 1) for one in waits[count + 1 : count + 3]] == [0.1, 0.1] or waits[-1] == waits[-2]


def test_it_waits_where_nobody_takes(tmp_path):
    code = """
written = 0
while True:
    written += os.write(1, b"x" * 65536)
    sys.stderr.write(f"{written}\\n")
"""
    with Run(tmp_path, code) as run:
        until(lambda: run.source._queue._cost >= child_process.QUEUE_BYTES - 65536, run.wake, "a full queue")
        taken = run.source.take(1 << 30)
        assert sum(len(one.data) for one in taken) <= child_process.QUEUE_BYTES
        run.until(lambda: len(run.text) > 4 * child_process.QUEUE_BYTES, "more, once it is taken")


def test_standard_error_goes_to_the_log_and_no_flood_of_it(tmp_path):
    code = """
sys.stderr.write("cannot open\\x1b[31m port\\n")
sys.stderr.flush()
sys.stderr.buffer.write(b"\\xff" * 3 + b"y" * 500 + b"\\n")
for number in range(100):
    sys.stderr.write(f"line {number}\\n")
sys.stderr.write("the last")
sys.stderr.flush()
os._exit(1)
"""
    with Run(tmp_path, code, restart_max_s=3600) as run:
        run.until(lambda: run.source.reopened >= 1, "its end")
        run.until(lambda: run.log and "left out" in run.log[-1], "the log")
    name = Path(sys.executable).name
    assert run.log[0] == f"program {name}: cannot open\\x1b[31m port"
    assert run.log[1].startswith(f"program {name}: \\xff\\xff\\xffyyy")
    assert len(run.log[1]) < 450
    assert run.log[LOG_LINES - 1] == f"program {name}: line 7"
    assert sum("left out" not in one for one in run.log[: LOG_LINES + 1]) == LOG_LINES
    assert f"program {name}: 93 more lines of it left out" in run.log


def test_a_deaf_one_is_killed_with_its_children(tmp_path):
    code = """
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"])
print(child.pid, flush=True)
import time
time.sleep(60)
"""
    with Run(tmp_path, code) as run:
        run.until(lambda: run.text.endswith(b"\n"), "its child")
        pids = [run.pid, int(run.text)]
        assert all(map(is_alive, pids))
    until(lambda: not any(map(is_alive, pids)), run.wake, "their end")
    assert run.source.ended


def test_one_that_is_asked_may_put_its_house_in_order(tmp_path):
    code = f"""
import signal
def leave(*_):
    open("left", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("up")
{TAIL}
"""
    with Run(tmp_path, code) as run:
        run.until(lambda: run.text == b"up\n", "its start")
    assert (tmp_path / "left").exists(), "it ran in device.toml's folder, and had SIGTERM first"


def test_one_that_closes_its_output_and_stays_is_ended(tmp_path):
    with Run(tmp_path, "print('x', flush=True); os.close(1); import time; time.sleep(60)", restart_max_s=3600) as run:
        run.until(lambda: run.source.reopened == 1, "its end")
        assert "last by SIGTERM" in run.source.status()


def test_a_child_of_its_own_that_holds_the_output_does_not_keep_it(tmp_path):
    code = """
import subprocess
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("x", flush=True)
os._exit(4)
"""
    with Run(tmp_path, code, restart_max_s=3600) as run:
        run.until(lambda: run.source.reopened == 1, "its end")
        assert "with exit code 4" in run.source.status()


def test_a_child_of_its_own_that_fills_the_log_does_not_keep_it_either(tmp_path):
    code = """
import subprocess
chatter = "import os, time; os.setsid(); [(os.write(2, bytes(9)), time.sleep(0.01)) for _ in range(3000)]"
subprocess.Popen([sys.executable, "-c", chatter])
os.write(1, b"last")
os._exit(4)
"""
    with Run(tmp_path, code, restart_max_s=3600) as run:
        run.until(lambda: run.source.reopened == 1, "its end")
        assert "with exit code 4" in run.source.status()
        assert run.text == b"last"


def test_it_gets_a_small_environment(tmp_path):
    given = os.environ | {"SECRET": "s", "WANTED": "w", "TZ": "UTC", "LD_PRELOAD": ""}
    code = f"print(sorted(os.environ), os.getcwd(), sys.stdin.read()); {TAIL}"
    with Run(tmp_path, code, environment=given, pass_environment=["WANTED", "NONE"]) as run:
        run.until(lambda: run.text.endswith(b"\n"), "its words")
    words = run.text.decode()
    assert "'WANTED'" in words
    assert "'TZ'" in words
    assert "SECRET" not in words
    assert "LD_PRELOAD" not in words
    assert str(tmp_path) in words


def test_its_words_are_no_shells(tmp_path):
    with Run(tmp_path, f"print(sys.argv[1:]); {TAIL}", "$HOME", "*; true | x") as run:
        run.until(lambda: run.text.endswith(b"\n"), "its words")
    assert run.text == b"['$HOME', '*; true | x']\n"


def test_it_gets_no_new_privileges_and_dies_with_us(tmp_path):
    need(child_process.guard(), "setpriv")
    code = f"""
import threading
from pathlib import Path
from edge_runtime.sources.child_process import ChildProcess
from edge_runtime.spec.source import CommandSource
code = "print(open('/proc/self/status').read(), flush=True); import time; time.sleep(60)"
spec = CommandSource(command=[sys.executable, "-c", code])
source = ChildProcess(spec, Path({str(tmp_path)!r}), wall_ns=lambda: 0, mono_ns=lambda: 0)
wake = threading.Event()
source.start(wake)
while not (chunks := source.take()):
    wake.wait(0.05)
print(source.status().partition("process ")[2].partition(";")[0], "NoNewPrivs:\\t1" in chunks[0].data.decode(), flush=True)
import time
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", f"import sys\n{code}"], stdout=subprocess.PIPE, text=True) as parent:
        pid, is_bound = parent.stdout.readline().split()
        assert is_bound == "True"
        assert is_alive(pid)
        parent.send_signal(signal.SIGKILL)
        until(lambda: not is_alive(pid), threading.Event(), "the child's death")


def test_where_the_kernel_cannot_be_asked_the_status_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(child_process, "_GUARD", ("no-such-program",))
    with Run(tmp_path, f"print('x'); {TAIL}") as run:
        run.until(lambda: run.text == b"x\n", "its output")
        assert run.source.status().endswith(UNGUARDED)


@pytest.mark.parametrize("word", ["no-such-program", "./none", "."])
def test_a_program_that_is_none_is_refused(tmp_path, word):
    source = make_source(CommandSource(command=[word]), wall_ns=lambda: 0, mono_ns=lambda: 0, folder=tmp_path)
    with pytest.raises(ConfigurationError, match=r"source command '.*': found no program of that name"):
        source.start(threading.Event())


def test_a_program_beside_the_device_file_is_found(tmp_path, monkeypatch):
    (tmp_path / "tool").write_text("#!/bin/sh\necho $0\nsleep 60\n")
    (tmp_path / "tool").chmod(0o755)
    monkeypatch.chdir("/")
    wake = threading.Event()
    source = ChildProcess(CommandSource(command=["./tool"]), tmp_path, wall_ns=lambda: 0, mono_ns=lambda: 0)
    source.start(wake)
    try:
        until(lambda: not source._queue.empty, wake, "its output")
        assert source.take()[0].data == b"./tool\n"
    finally:
        source.stop()


def test_one_that_was_removed_meanwhile_is_told_and_tried_again(tmp_path, monkeypatch):
    monkeypatch.setattr(child_process, "_GUARD", ("no-such-program",))
    (tmp_path / "tool").write_text("#!/bin/sh\nrm ./tool\nexit 0\n")
    (tmp_path / "tool").chmod(0o755)
    wake = threading.Event()
    source = ChildProcess(
        CommandSource(command=["./tool"]), tmp_path, wall_ns=lambda: 0, mono_ns=lambda: 0, jitter=lambda: 0.01
    )
    source.start(wake)
    told = "; it cannot be started: No such file or directory"
    until(lambda: "started again" in source.status() and told in source.status(), wake, "the refusal, while it waits")
    source.stop()


def test_a_flood_is_told_of_again_after_a_while():
    clock, told = HandClock(), []
    log = ChildLog("cli", told.append, clock.mono_ns)
    log.take(b"".join(b"%d\n" % number for number in range(LOG_LINES + 5)) + b"half")
    assert told == [f"cli: {number}" for number in range(LOG_LINES)]
    clock.advance(LOG_NS / 1e9)
    log.take(b" a line\n")
    assert told[LOG_LINES:] == ["cli: 5 lines of it left out", "cli: half a line"]
    log.take(b"x" * 1000)
    log.flush()
    assert told[-1] == "cli: " + "x" * 400
