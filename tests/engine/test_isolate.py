"""A session in a process of its own: the same numbers and refusals, and no end of it is an end of ours."""

import gc
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_runtime.engine import isolate
from edge_runtime.engine import session as engine
from edge_runtime.errors import BundleError, DeviceError
from tests.rig.program import PATIENCE_S, ROOT

LIMITS = {"memory_mb": 256, "timeout_s": PATIENCE_S, "start_s": PATIENCE_S}
GIB = 1 << 30


def model(*nodes, initializers=()):
    """From x, float32 (batch, 1), to y."""
    graph = helper.make_graph(
        list(nodes) or [helper.make_node("Add", ["x", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        list(initializers),
    )
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, ir_version=10, opset_imports=opset).SerializeToString()


def endless():
    """A loop that never ends, in onnxruntime's own code: no signal handler of Python runs meanwhile."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Abs", ["was"], ["is"])],
        "body",
        [
            helper.make_tensor_value_info("at", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("was", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("is", TensorProto.FLOAT, None),
        ],
    )
    true = onnx.numpy_helper.from_array(np.array(True), "true")
    return model(helper.make_node("Loop", ["", "true", "x"], ["y"], body=body), initializers=[true])


def greedy():
    """It asks for x times 2 GiB."""
    return model(
        helper.make_node("Cast", ["x"], ["n"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["n", "one"], ["flat"]),
        helper.make_node("ConstantOfShape", ["flat"], ["y"]),
        initializers=[onnx.numpy_helper.from_array(np.array([-1]), "one")],
    )


def feed(*rows):
    return {"x": np.array(rows, dtype=np.float32).reshape(-1, 1)}


def opened(*args, **changed):
    return isolate.open_isolated(args[0] if args else model(), **(LIMITS | changed))


def pid_of(session):
    return session._child.pid


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def open_files():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def program_of(monkeypatch, text):
    """What is started in the place of a session's process: a program of one line."""
    monkeypatch.setattr(isolate, "program", lambda: [sys.executable, "-c", text])


def test_it_has_the_face_and_the_numbers_of_a_session_in_process():
    for name in ("frost", "dewpoint", "tiny_gru"):
        data = next((ROOT / "bundles" / name).glob("model*.onnx")).read_bytes()
        ours, here = opened(data), engine.open_session(data)
        assert (ours.inputs, ours.outputs, ours.placement) == (here.inputs, here.outputs, here.placement)
        for batch in (1, 16, 3):
            feeds = {
                one: np.random.default_rng(batch)
                .normal(size=[batch if isinstance(size, str) else size for size in shape])
                .astype(dtype)
                for one, shape, dtype in here.inputs
            }
            found, expected = ours(feeds), here(feeds)
            assert list(found) == list(expected)
            assert all(found[one].tobytes() == expected[one].tobytes() for one in expected)


def test_an_answer_is_not_overwritten_by_the_next():
    session = opened()
    first = session(feed(1))["y"]
    session(feed(2))
    assert first.tolist() == [[2]]


def test_a_large_batch_goes_through_pipes_that_hold_less():
    rows = np.arange(1_000_000)
    assert opened()(feed(*rows))["y"][-1, 0] == 2 * rows[-1]


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (b"no model", {}),
        (model(helper.make_node("NoSuchOperator", ["x"], ["y"])), {}),
        (model(), {"provider": "TpuExecutionProvider"}),
        (model(), {"provider": "CUDAExecutionProvider"}),
    ],
    ids=["no model", "an unknown operator", "an unknown provider", "a provider that is not there"],
)
def test_what_a_session_refuses_it_refuses_in_the_same_words(data, settings):
    with pytest.raises((BundleError, DeviceError)) as here:
        engine.open_session(data, **settings)
    with pytest.raises(type(here.value)) as ours:
        opened(data, **settings)
    assert str(ours.value) == str(here.value)


def test_after_a_refused_call_it_answers_the_next():
    session = opened()
    with pytest.raises(ValueError, match="input x: a number that is not finite"):
        session(feed(np.nan))
    with pytest.raises(ValueError, match="empty"):
        session({"x": np.empty((0, 1), dtype=np.float32)})
    with pytest.raises(DeviceError, match="the model's run: found") as ours:
        session({"x": np.ones((1, 2, 3), dtype=np.float32)})
    with pytest.raises(DeviceError) as here:
        engine.open_session(model())({"x": np.ones((1, 2, 3), dtype=np.float32)})
    assert str(ours.value) == str(here.value)
    assert session(feed(2))["y"].tolist() == [[4]]


def test_a_crash_is_told_with_its_signal_and_so_is_every_later_call():
    session = opened()
    os.kill(pid_of(session), signal.SIGSEGV)
    line = r"the session's own process: found an end by SIGSEGV, when last looked at with \d+ of 256 MiB; expected"
    for _ in range(2):
        with pytest.raises(DeviceError, match=line):
            session(feed(1))
        session.end()  # by whoever makes it anew: it has ended already, and of that
    assert is_gone(pid_of(session))


def test_a_call_that_hangs_is_ended():
    session = opened(endless(), timeout_s=0.2)
    with pytest.raises(DeviceError, match=r"found no answer within 0\.2 s; expected one; .* or raise timeout_s of"):
        session(feed(1))
    assert is_gone(pid_of(session))


def test_a_start_that_hangs_is_ended(monkeypatch):
    program_of(monkeypatch, "import time; time.sleep(1e6)")
    with pytest.raises(DeviceError, match=r"found no answer within 0\.2 s; expected one; .* or raise start_s of"):
        opened(start_s=0.2)


def test_a_model_larger_than_the_pipe_is_not_waited_for_where_nobody_reads(monkeypatch):
    program_of(monkeypatch, "import time; time.sleep(1e6)")
    with pytest.raises(DeviceError, match=r"found no answer within 0\.2 s"):
        opened(bytes(1 << 20), start_s=0.2)


def test_a_start_that_crashes_says_what_it_last_said(monkeypatch):
    program_of(monkeypatch, "import sys; sys.stderr.write('a\\nboo\\n'); sys.exit(3)")
    with pytest.raises(DeviceError, match=r"found an end with exit code 3; it last said: boo; expected"):
        opened()


def test_what_floods_standard_error_neither_hangs_nor_fills_memory(monkeypatch):
    program_of(monkeypatch, "import sys\nfor n in range(100000): print('noise', n, file=sys.stderr)\nsys.exit(3)")
    with pytest.raises(DeviceError, match="found an end with exit code"):
        opened()


def test_one_that_tells_for_ever_and_never_answers_is_ended(monkeypatch):
    program_of(monkeypatch, "import os\nos.set_blocking(2, True)\nwhile True: os.write(2, b'noise ' * 1000)")
    with pytest.raises(DeviceError, match=r"found no answer within 0\.5 s; it last said: .*noise"):
        opened(start_s=0.5)


def test_an_answer_that_is_none(monkeypatch):
    program_of(monkeypatch, "import sys, time; print('Loading engine: ' + 'x' * 100, flush=True); time.sleep(1e6)")
    with pytest.raises(DeviceError, match="found an answer that is none: a length of"):
        opened()


def test_an_answer_to_another_call_is_none(monkeypatch):
    session = opened()
    session._child._number += 1  # as where a call was left in the middle
    child = session._child
    total, made = child._outbox.pack(isolate.CALL, 1, [(0, feed(1)["x"])])
    child._send(total, made, 1e18)
    monkeypatch.setattr(isolate._Child, "_send", lambda *_: None)
    with pytest.raises(DeviceError, match="found an answer to call 1; expected one to call 3"):
        session(feed(2))


def test_after_an_interruption_no_late_answer_is_taken(monkeypatch):
    session = opened()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(isolate._Child, "_receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session(feed(1))
    monkeypatch.undo()
    with pytest.raises(DeviceError, match="found an interrupted call"):
        session(feed(2))


def test_a_program_that_cannot_be_started(monkeypatch):
    monkeypatch.setattr(isolate, "program", lambda: ["/nowhere/edge-runtime"])
    gc.collect()  # sessions of earlier tests, whose pipes would else be closed in between
    before = open_files()
    with pytest.raises(DeviceError, match="found No such file or directory; expected a start of this program"):
        opened()
    assert open_files() == before


def test_more_memory_than_it_may_have_at_once_is_a_failed_call():
    """malloc says no, onnxruntime says so, and the process lives on."""
    session = opened(greedy())
    assert session(feed(1))["y"].shape == (1,)
    with pytest.raises(DeviceError, match=r"the model's run: found .*ConstantOfShape node.*bfc_arena"):
        session(feed(GIB))
    assert session(feed(2))["y"].shape == (2,)


def test_memory_that_is_taken_little_by_little_ends_it(monkeypatch):
    session = opened()
    assert 30 < session.resident_mb < 256
    monkeypatch.setattr(isolate, "_resident_mb", lambda _: 257.0)
    session._child._look_s = 0.0
    with pytest.raises(DeviceError, match=r"found 257 MiB resident; expected at most 256 MiB, memory_mb of"):
        session(feed(1))
    assert is_gone(pid_of(session))


def test_too_little_to_start_with_is_said_in_one_line():
    with pytest.raises(DeviceError, match=r"(MemoryError|bad_alloc), with \d+ of 60 MiB taken|found an end ") as told:
        opened(memory_mb=60)
    assert "\n" not in str(told.value)


def test_signals_that_end_a_service_leave_its_session_until_the_last_answer():
    session = opened()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid_of(session), number)
    assert session(feed(1))["y"].tolist() == [[2]]


def test_so_do_those_that_come_before_it_has_begun(monkeypatch):
    """A supervisor sends them to all at once: an orderly stop is no driver that crashes."""

    class AtOnce(subprocess.Popen):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                os.kill(self.pid, number)

    monkeypatch.setattr(subprocess, "Popen", AtOnce)
    session = opened()
    assert session(feed(1))["y"].tolist() == [[2]]
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    held_back = int((Path("/proc") / str(pid_of(session)) / "status").read_text().split("SigBlk:\t")[1].split()[0], 16)
    assert held_back == 0


def test_it_is_in_no_folder_and_in_no_terminal_and_has_none_of_our_files(tmp_path):
    file = os.open(tmp_path / "secret", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(file, True)
    session = opened()
    here = Path("/proc") / str(pid_of(session))
    assert (here / "cwd").readlink() == Path("/")
    assert os.getsid(pid_of(session)) == pid_of(session)
    open_files = [path.readlink() for path in (here / "fd").iterdir()]
    assert not [one for one in open_files if "secret" in str(one)]
    assert {str(one).split(":")[0] for one in open_files} <= {"pipe", "/dev/null"}
    os.close(file)


def test_it_ends_with_the_last_that_knows_it():
    session = opened()
    pid, before = pid_of(session), open_files()
    assert not is_gone(pid)
    del session
    assert is_gone(pid)
    assert open_files() == before - 4


def test_it_outlives_the_thread_that_opened_it():
    found = []
    thread = threading.Thread(target=lambda: found.append(opened()))
    thread.start()
    thread.join()
    assert found[0](feed(1))["y"].tolist() == [[2]]


@pytest.mark.parametrize("doing", ["nothing", "a run", "stopped"])
def test_it_does_not_outlive_a_parent_that_is_killed(tmp_path, doing):
    """In the middle of a run too, where nothing in it could look for its parent; and where somebody has stopped it."""
    (tmp_path / "model.onnx").write_bytes(endless() if doing == "a run" else model())
    parent = subprocess.Popen(
        [
            sys.executable, "-c",
            ("import sys, numpy, pathlib\n"
            "from edge_runtime.engine.isolate import open_isolated\n"
            "data = pathlib.Path(sys.argv[1]).read_bytes()\n"
            f"session = open_isolated(data, **{LIMITS})\n"
            "print(session._child.pid, flush=True)\n"
            "session({'x': numpy.ones((1, 1), 'float32')})\n"
            "sys.stdin.read()\n"),
            str(tmp_path / "model.onnx"),
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    pid = int(parent.stdout.readline())
    handle = os.pidfd_open(pid)
    if doing == "stopped":
        os.kill(pid, signal.SIGSTOP)
    parent.kill()
    parent.communicate()
    import select

    assert select.select([handle], [], [], PATIENCE_S)[0], "it is still there"
    os.close(handle)


def test_a_frozen_program_starts_itself_and_no_other(monkeypatch):
    assert isolate.program() == [sys.executable, "-P", "-m", "edge_runtime", "isolated-session"]
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setitem(sys.modules, "edge_runtime.__main__", sys)
    assert isolate.program() == [sys.executable, "isolated-session"]
    monkeypatch.delitem(sys.modules, "edge_runtime.__main__")
    with pytest.raises(DeviceError, match="found another frozen program than edge-runtime"):
        isolate.program()


def test_a_process_that_is_told_no_model_or_another_ends():
    words = [sys.executable, "-m", "edge_runtime", "isolated-session", "256"]
    for tensors in ([], [(0, np.ones(1))]):
        life, held = os.pipe()
        _, made = isolate.Outbox().pack(isolate.CALL, 1, tensors)
        done = subprocess.run(
            [*words, str(life)], input=b"".join(bytes(one) if isinstance(one, bytes) else one.tobytes() for one in made),
            capture_output=True, check=False, pass_fds=(life,), cwd=ROOT, timeout=PATIENCE_S,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (1, b"")
        assert b"BadFrame: no model" in done.stderr
        os.close(life)
        os.close(held)


def test_nothing_is_imported_for_it_by_those_who_do_not_ask():
    code = "import sys, edge_runtime.run.boot, json; print(json.dumps([m for m in sys.modules if 'isola' in m]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT)
    assert json.loads(done.stdout) == []
