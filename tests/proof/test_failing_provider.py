"""A provider that turns bad while it serves: seen by the next probe, nothing of it published after that, no sample lost."""

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from edge_runtime.run.broker import default_client_id
from tests.proof.mqtt_lines import HEAD, KINDS, broker_text, line_text
from tests.proof.station import answers, call
from tests.proof.test_mqtt_kill import meaning
from tests.rig import failing_provider
from tests.rig.broker import Broker
from tests.rig.mqtt_client import Client
from tests.rig.program import PATIENCE_S, environment

SAMPLES = 120
CALLS = 40
IN_PROCESS = """schema = "edge-runtime/profile/1"
name = "own"
description = "this machine"
inherits = "generic_x86"
"""
IN_CHILD = f"""{IN_PROCESS}[isolation]
memory_mb = 256
timeout_s = 5.0
"""
KEEPS_ALL = "max_queued_messages 0\n"
"""Of the samples that wait while a session hangs and is made anew, mosquitto drops what is beyond 1000 unless it is told."""
TOLD = {
    "raise": "an illegal memory access was encountered",
    "crash": "found an end by SIGSEGV",
    "hang": "found no answer within 5 s",
    "leak": r"MemoryError, with |\d+ MiB resident",
}
"""What is said of a failure in a process of its own that gives no wrong answer; of lost memory by whichever sees it first."""


class Site:
    """A broker, a client of it, and the program with a provider that fails, in one folder."""

    def __init__(self, folder, broker, client, kind, profile="", *, probe_s=1):
        self.folder, self.broker, self.client, self.kind = folder, broker, client, kind
        table = broker_text(broker.port, "auto", ahead=KINDS[kind].ahead)
        head = f"{HEAD}probe_s = {probe_s}\n"
        if profile:
            (folder / "own.toml").write_text(profile)
            head += 'profile = "own.toml"\n'
        (folder / "device.toml").write_text(f"{head}{table}{line_text(kind)}")
        self.sent = []

    def start(self, *bad, exit_on_refusal=False):
        words = [sys.executable, "-m", failing_provider.MODULE, *bad] if bad else [sys.executable, "-m", "edge_runtime"]
        words += ["run", "--config", "device.toml"] + (["--exit-on-refusal"] if exit_on_refusal else [])
        return subprocess.Popen(
            words, cwd=self.folder, env=environment(self.folder), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )

    def send(self, count):
        for _ in range(count):
            payload = KINDS[self.kind].payload(len(self.sent))
            self.sent.append(payload)
            self.client.publish(f"in/{self.kind}", payload)

    def answers(self):
        return [json.loads(body) for body in self.client.payloads(f"out/{self.kind}")]

    def expected(self):
        """By id, what the same line says to the same samples from a file."""
        (self.folder / "samples.jsonl").write_bytes(b"".join(one + b"\n" for one in self.sent))
        source = '{ kind = "replay", path = "samples.jsonl" }'
        (self.folder / "whole.toml").write_text(HEAD + line_text(self.kind, source=source, sink='{ kind = "stdout" }'))
        done = call(self.folder, "replay", "samples.jsonl", "--config", "whole.toml")
        assert done.returncode == 0, done.stderr
        return {one["id"]: one for one in answers(done.stdout)}

    def status(self):
        found = [json.loads(path.read_bytes()) for path in (self.folder / "run").rglob("status.json")]
        return found[0] if found else {"state": "none", "lines": []}

    def until_all_came(self):
        """What the program had sent when it ended is with the broker, and has reached the client, in order."""
        name = default_client_id(self.folder / "state")
        ends = re.compile(rf"Client {name} (closed its connection|disconnected)")
        self.client.until(lambda: ends.search(self.broker.log), "the end of the program's connection")
        self.client.publish("out/mark", b"x")
        self.client.until(lambda: self.client.payloads("out/mark"), "the mark")

    def until_subscribed(self):
        self.client.until(lambda: ", MQTT 5" in json.dumps(self.status()), "a connection", PATIENCE_S)


@pytest.fixture
def profile():
    return ""


@pytest.fixture
def site(tmp_path, kind, profile):
    with Broker(tmp_path / "broker", KEEPS_ALL) as broker, Client(broker.port, "out/#") as client:
        yield Site(tmp_path, broker, client, kind, profile)


def said(program):
    """What it has said, once it has ended."""
    program.terminate()
    _, told = program.communicate(timeout=PATIENCE_S)
    return told.decode()


def right(found, expected):
    return [meaning(one, with_seq=False) == meaning(expected[one["id"]], with_seq=False) for one in found]


@pytest.mark.parametrize(
    ("kind", "what", "profile"),
    [
        ("stateless", "garbage", ""),
        pytest.param("stateless", "nan", "", marks=pytest.mark.long),
        pytest.param("windowed", "garbage", "", marks=pytest.mark.long),
        pytest.param("windowed", "raise", "", marks=pytest.mark.long),
        pytest.param("stateful", "raise", "", marks=pytest.mark.long),
        pytest.param("stateful", "nan", "", marks=pytest.mark.long),
        pytest.param("stateful", "garbage", "", marks=pytest.mark.long),
        pytest.param("windowed", "garbage", IN_CHILD, marks=pytest.mark.long),
        pytest.param("stateless", "nan", IN_CHILD, marks=pytest.mark.long),
        pytest.param("stateful", "raise", IN_CHILD, marks=pytest.mark.long),
        ("windowed", "crash", IN_CHILD),
        ("stateful", "hang", IN_CHILD),
        ("windowed", "leak", IN_CHILD),
    ],
)
def test_a_session_is_made_anew_once_and_goes_on(site, what):
    program = site.start(what, str(CALLS), "once")
    try:
        site.until_subscribed()
        site.send(SAMPLES)
        site.client.until(lambda: "made anew" in json.dumps(site.status()), "a new session")
        bad = len(site.answers())
        site.send(SAMPLES)
        last = site.expected()
        site.client.until(lambda: site.answers()[-1]["id"] == list(last)[-1], "the last answer", PATIENCE_S)
    finally:
        told = said(program)
    assert program.returncode == 0, told
    book = site.status()["lines"][0]["ledger"]
    assert "Traceback" not in told
    assert book["adds_up"]
    found = site.answers()
    # What was published before the probe saw it may be wrong; nothing behind it is.
    begins_anew = site.kind == "stateful" and what not in TOLD
    assert begins_anew or all(right(found[bad:], last))
    assert {one["id"] for one in found[bad:]} >= set(list(last)[-SAMPLES:])
    if what in TOLD:
        assert set(last) == {one["id"] for one in found}
        assert all(right(found, last))
        assert re.search(TOLD[what], told)
        assert told.count("the session was made anew") == 1
    if what == "nan" and not begins_anew:
        assert all(right(found, last))


@pytest.mark.parametrize(
    "kind", ["windowed", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("stateless", "stateful"))]
)
def test_an_output_that_stands_still_is_seen_long_before_the_next_probe_is_due(tmp_path, kind):
    with Broker(tmp_path / "broker", KEEPS_ALL) as broker, Client(broker.port, "out/#") as client:
        site = Site(tmp_path, broker, client, kind, probe_s=3600)
        program = site.start("constant", str(CALLS), "once")
        try:
            site.until_subscribed()
            # A machine that has time takes what waits in one call, and it is calls that are counted.
            for _ in range(SAMPLES):
                before = len(site.answers())
                site.send(3)  # of three streams at a time
                with suppress(TimeoutError):  # a window that fills gives none
                    site.client.until(lambda before=before: len(site.answers()) > before, "an answer", 0.2)
            site.client.until(lambda: "made anew" in json.dumps(site.status()), "a new session")
            bad = len(site.answers())
            site.send(SAMPLES)
            last = site.expected()
            site.client.until(lambda: site.answers()[-1]["id"] == list(last)[-1], "the last answer", PATIENCE_S)
        finally:
            told = said(program)
        assert program.returncode == 0, told
        assert "golden probe: found" in told
        assert site.status()["lines"][0]["ledger"]["adds_up"]
        found = site.answers()
        assert kind == "stateful" or all(right(found[bad:], last)), (
            "what came of a state of before may not be told apart"
        )
        assert {one["id"] for one in found[bad:]} >= set(list(last)[-SAMPLES:])


@pytest.mark.parametrize(
    ("kind", "what", "profile"),
    [
        pytest.param("stateless", "raise", "", marks=pytest.mark.long),
        ("windowed", "garbage", ""),
        pytest.param("windowed", "raise", "", marks=pytest.mark.long),
        pytest.param("stateful", "raise", "", marks=pytest.mark.long),
        pytest.param("stateless", "garbage", "", marks=pytest.mark.long),
        pytest.param("windowed", "garbage", IN_CHILD, marks=pytest.mark.long),
        pytest.param("stateless", "garbage", IN_CHILD, marks=pytest.mark.long),
        ("stateful", "crash", IN_CHILD),
        ("stateless", "hang", IN_CHILD),
        ("stateful", "leak", IN_CHILD),
    ],
)
def test_a_session_that_fails_again_is_given_up_and_no_sample_is_lost(site, what):
    program = site.start(what, str(CALLS), "always", exit_on_refusal=True)
    try:
        site.until_subscribed()
        site.send(SAMPLES)
        deadline = time.monotonic() + PATIENCE_S
        while program.poll() is None and time.monotonic() < deadline:
            site.send(20)
            time.sleep(0.1)
    finally:
        told = said(program)
    assert program.returncode == 69, told
    assert "it was made anew once already" in told
    site_said = told
    assert site.status()["state"] == "ERROR"
    site.until_all_came()
    published = len(site.answers())
    whole = site.start()
    try:
        site.send(1)
        expected = site.expected()
        site.client.until(lambda: site.answers()[-1]["id"] == list(expected)[-1], "the last answer", PATIENCE_S)
    finally:
        told = said(whole)
    assert whole.returncode == 0, told
    book = site.status()["lines"][0]["ledger"]
    found = site.answers()
    assert all(right(found[published:], expected))
    assert book["adds_up"]
    samples = book["counts"]["samples"]
    if site.kind == "windowed":
        assert (samples["accepted"], samples["rejected"]) == (len(site.sent), {})
    if what in TOLD:
        assert re.search(TOLD[what], site_said)
        assert {one["id"] for one in found} == set(expected)
        assert all(right(found, expected))


@pytest.mark.parametrize(("kind", "profile"), [("windowed", f"{IN_PROCESS}memory_mb = 300\n")])
def test_a_session_that_loses_memory_is_seen_by_the_probe_and_no_sample_is_lost(site):
    """In process nobody gives it back: the session that is made anew lives in the same memory."""
    program = site.start("leak", str(CALLS), "always", exit_on_refusal=True)
    try:
        site.until_subscribed()
        deadline = time.monotonic() + PATIENCE_S
        while program.poll() is None and time.monotonic() < deadline:
            site.send(20)
            time.sleep(0.1)
    finally:
        told = said(program)
    assert program.returncode == 69, told
    assert re.search(r"golden probe: memory of this process: found \d+ MB; expected at most 315 MB", told)
    assert site.status()["state"] == "ERROR"
    nothing_is_lost(site)


@pytest.mark.parametrize("kind", ["windowed", pytest.param("stateful", marks=pytest.mark.long)])
def test_a_session_that_crashes_ends_the_process_and_no_sample_is_lost(site):
    """What a supervisor then does is start it again."""
    program = site.start("crash", str(CALLS), "always")
    try:
        site.until_subscribed()
        site.send(SAMPLES)
        program.wait(PATIENCE_S)
    finally:
        said(program)
    assert program.returncode == -signal.SIGSEGV
    nothing_is_lost(site)


def nothing_is_lost(site):
    """Start the program again, with a provider that is whole: every sample that was sent is answered, and rightly."""
    whole = site.start()
    try:
        site.until_subscribed()
        site.send(1)
        expected = site.expected()
        site.client.until(lambda: {one["id"] for one in site.answers()} == set(expected), "every answer")
    finally:
        told = said(whole)
    assert whole.returncode == 0, told
    assert all(right(site.answers(), expected))
    book = site.status()["lines"][0]["ledger"]
    assert (book["adds_up"], book["counts"]["samples"]["rejected"]) == (True, {})


@pytest.mark.parametrize("kind", ["windowed"])
def test_a_session_that_hangs_stops_the_watchdog_and_after_the_kill_no_sample_is_lost(site):
    """The loop cannot turn, so it cannot say that it does; what a supervisor then does is kill -9."""
    program = site.start("hang", str(CALLS), "always")
    try:
        site.until_subscribed()
        site.send(SAMPLES)
        seen = site.status()["time"]
        stood = 0
        while stood < 3:
            time.sleep(1)
            now = site.status()["time"]
            stood, seen = (stood + 1, seen) if now == seen else (0, now)
        program.kill()
    finally:
        told = said(program)
    assert "Traceback" not in told
    whole = site.start()
    try:
        expected = site.expected()
        site.client.until(lambda: {one["id"] for one in site.answers()} == set(expected), "every answer")
    finally:
        told = said(whole)
    assert all(right(site.answers(), expected))
    book = site.status()["lines"][0]["ledger"]
    assert (book["adds_up"], book["counts"]["samples"]["accepted"]) == (True, SAMPLES)
