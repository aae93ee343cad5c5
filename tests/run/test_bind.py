"""`bind --dry-run`: what it tells of captured payloads is what the line itself would do with them."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import verify
from edge_runtime.cli import main
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import make_framing
from edge_runtime.flow.line import Line
from edge_runtime.flow.model import Model
from edge_runtime.flow.recording import MAGIC, encode_chunk
from edge_runtime.run.config import load_config
from edge_runtime.run.inspect import manifest_of
from tests.rig.bundles import DEWPOINT
from tests.rig.device_file import line, write_device_file

GOOD = b'{"t": 68, "rh": 50, "p": 990}'


class Bind:
    def __init__(self, folder: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
        self.config = write_device_file(folder, line("roof", DEWPOINT))
        self._folder, self._captured = folder, capsysbinary

    def __call__(self, payloads: bytes, *words: str) -> tuple[int, list[dict[str, Any]], str]:
        """The exit code, the samples and the text of one capture."""
        file = self._folder / "captured"
        file.write_bytes(payloads)
        code = main(["bind", "--dry-run", "--config", str(self.config), *words, str(file)])
        out, err = self._captured.readouterr()
        return code, [json.loads(one) for one in out.splitlines()], err.decode()


@pytest.fixture
def bind(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> Bind:
    return Bind(tmp_path, capsysbinary)


def message(topic: str, payload: str, **more: Any) -> bytes:
    """One line as mosquitto_sub 2.0.11 -F '%j' was seen to write it."""
    keys = {"tst": "2026-11-30T21:36:58.176555Z+0000", "topic": topic, "qos": 0, "retain": 0}
    keys |= {"payloadlen": len(payload.encode()), "payload": payload or None} | more
    return json.dumps(keys, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def test_the_vector_comes_in_both_units_with_its_conversion(bind: Bind) -> None:
    code, (sample,), text = bind(GOOD)
    assert code == 0
    assert sample["outcome"] == "accepted"
    assert sample["flags"] == ["converted"]
    assert sample["channels"]["air_temperature"] == {
        "sent": 68.0, "unit": "[degF]", "value": pytest.approx(20.0), "contract_unit": "Cel",
        "a": pytest.approx(5 / 9), "b": pytest.approx(-160 / 9),
    }  # fmt: skip
    assert "air_temperature    68 [degF] -> 20 Cel (x * 0.5555555555555556 + -17.77777777777778)" in text
    assert "relative_humidity  50 % -> 50 % (as it is)" in text
    assert "1 payloads: 1 accepted" in text


def test_a_field_that_is_not_there_is_named_with_the_nearest(bind: Bind) -> None:
    code, (sample,), text = bind(b'{"T": 68, "rh": null, "BME280": {"P": 990}}')
    assert code == 65
    assert sample["refused"]["reason"] == "missing"
    assert (
        "found no field 't' in the object; expected a number in [degF]; correct channels.air_temperature.field" in text
    )
    assert "nearest: 'T'" in text
    assert "channel 'air_temperature'" not in text
    assert "channel 'relative_humidity': field 'rh' is null" in text
    assert "channel 'station_pressure': no field 'p'; nearest: '/BME280/P'" in sample["absent"]
    assert sample["channels"]["relative_humidity"]["sent"] is None


def test_one_refused_among_many_is_65_and_the_rest_is_told(bind: Bind) -> None:
    code, samples, text = bind(GOOD + b"\n\n" + GOOD.replace(b"68", b"6800") + b"\nnothing\n" + GOOD)
    assert code == 65
    assert [sample["outcome"] for sample in samples] == ["accepted", "refused", "refused", "accepted"]
    assert "4 payloads: 2 accepted, 1 refused (beyond_physical), 1 refused (bad_json)" in text


def test_no_payload_at_all_proves_nothing(bind: Bind) -> None:
    code, samples, text = bind(b"")
    assert (code, samples) == (65, [])
    assert "0 payloads: nothing to judge; of a recording the first line after each opening is passed over" in text


def test_captures_of_mosquitto_sub(bind: Bind) -> None:
    pretty = '{\n "t": 68,\n "rh": 50, "p": 990, "u": "°"\n}\n'
    code, samples, _ = bind(message("a/b", pretty) + message("a/c", ""))
    assert code == 0
    assert [(sample["topic"], sample["outcome"]) for sample in samples] == [("a/b", "accepted"), ("a/c", "no_sample")]
    embedded = json.dumps({"topic": "x", "qos": 0, "payload": json.loads(pretty), "payloadlen": 47}).encode()
    assert bind(embedded)[0] == 0


def test_a_topic_writes_no_line_of_its_own(bind: Bind) -> None:
    _, _, text = bind(message("a\x1b[31m\n\x85b", GOOD.decode()))
    assert "payload 1 (a\\x1b[31m\\n\\x85b): accepted" in text
    assert text.replace("\n", "").isprintable()


def test_a_message_that_the_broker_had_kept_is_told_where_run_drops_it(bind: Bind) -> None:
    kept = message("a/b", GOOD.decode(), retain=1)
    code, (sample,), text = bind(kept)
    assert (code, sample["retained"]) == (0, True)
    assert "the broker had kept it" not in text
    source = 'kind = "mqtt"\ntopics = ["a/b"]'
    write_device_file(bind.config.parent, '[broker]\nhost = "127.0.0.1"\n', line("roof", DEWPOINT, source=source))
    assert "  the broker had kept it: run takes no such message" in bind(kept)[2]
    assert "the broker had kept it" not in bind(message("a/b", GOOD.decode()))[2]


def subscribed(bind: Bind, *topics: str) -> None:
    source = f'kind = "mqtt"\ntopics = {json.dumps(topics)}'
    write_device_file(bind.config.parent, '[broker]\nhost = "127.0.0.1"\n', line("roof", DEWPOINT, source=source))


def test_a_topic_that_the_line_does_not_take_is_told_as_that_and_not_decoded(bind: Bind) -> None:
    subscribed(bind, "zigbee2mqtt/attik")
    code, (sample,), text = bind(message("zigbee2mqtt/attic", "no JSON"))
    assert (code, sample["outcome"], sample["topic"]) == (65, "not_subscribed", "zigbee2mqtt/attic")
    assert "payload 1 (zigbee2mqtt/attic): not subscribed: source.topics has 'zigbee2mqtt/attik'\n" in text
    assert "1 payloads: 1 not subscribed" in text
    subscribed(bind, "zigbee2mqtt/attik", "zigbee2mqtt/+/x")
    assert "'zigbee2mqtt/+/x'; nearest: 'zigbee2mqtt/attik'" in bind(message("zigbee2mqtt/attic", "no JSON"))[2]


def test_what_else_the_broker_had_does_not_count_against_the_line(bind: Bind) -> None:
    subscribed(bind, "zigbee2mqtt/+")
    code, samples, _ = bind(message("zigbee2mqtt/attic", GOOD.decode()) + message("zigbee2mqtt/bridge/state", "online"))
    assert (code, [one["outcome"] for one in samples]) == (0, ["accepted", "not_subscribed"])


def test_a_topic_before_the_payload_is_told_as_mosquitto_sub_v(bind: Bind) -> None:
    subscribed(bind, "zigbee2mqtt/+")
    code, _, text = bind(b"zigbee2mqtt/attic " + GOOD)
    assert code == 65
    assert "  its topic stands before it, as mosquitto_sub -v writes it: capture with -F '%j'" in text
    assert "mosquitto_sub" not in bind(b"zwave/attic " + GOOD)[2]
    assert "mosquitto_sub" not in bind(GOOD)[2]


@pytest.mark.parametrize(
    ("left_out", "told"), [(["qos"], "'qos'"), (["topic", "qos"], "'qos', 'topic'"), (["payload"], "'payload'")]
)
def test_a_captured_line_that_was_trimmed_by_hand_is_told_what_it_lacks(
    bind: Bind, left_out: list[str], told: str
) -> None:
    subscribed(bind, "zigbee2mqtt/+")
    keys = json.loads(message("zigbee2mqtt/attic", GOOD.decode()))
    trimmed = json.dumps({name: value for name, value in keys.items() if name not in left_out}).encode()
    code, _, text = bind(trimmed)
    assert code == 65
    assert (
        f"  taken for the payload itself: it looks like a line of mosquitto_sub -F '%j' without {told}: leave" in text
    )
    assert "mosquitto_sub" not in bind(trimmed[:-1] + b', "t": 68}')[2]  # an object of its own


def test_a_later_line_without_its_payload_is_said_to_have_none(bind: Bind) -> None:
    subscribed(bind, "zigbee2mqtt/+")
    _, samples, text = bind(message("zigbee2mqtt/attic", GOOD.decode()) + b'{"topic": "zigbee2mqtt/attic", "qos": 0}')
    assert samples[0]["outcome"] == "accepted"
    assert samples[1]["refused"]["found"].endswith("mosquitto_sub -F '%j': it has no key 'payload'")
    assert "taken for the payload itself" not in text


def test_sparkplug_without_its_topics_is_told_how_to_capture(bind: Bind) -> None:
    subscribed(bind, "spBv1.0/plant/#")
    bind.config.write_text(bind.config.read_text().replace('"json"', '"sparkplug"'))
    code, _, text = bind(b"0a0b\n")
    assert code == 65
    assert "  Sparkplug needs its topics and all its bytes: capture with mosquitto_sub -F '%t %x'" in text
    _, (sample,), _ = bind(message("spBv1.0/plant/NBIRTH/press", "ab", payloadlen=9))
    assert "mosquitto_sub -F '%t %x'" in sample["refused"]["todo"]
    assert "capture with" not in bind(b"spBv1.0/plant/NBIRTH/press 0a0b\n")[2]


def test_the_channel_behind_extrapolating_is_told_with_its_band(bind: Bind) -> None:
    _, (sample,), text = bind(GOOD.replace(b"990", b"1009.6"))
    assert sample["flags"] == ["converted", "extrapolating"]
    assert [name for name, one in sample["channels"].items() if "trained" in one] == ["station_pressure"]
    assert "1009.6 hPa -> 1009.6 hPa (as it is), beyond what training saw, 965 to 1007" in text


def test_a_capture_that_lost_bytes_is_said_to_have(bind: Bind) -> None:
    code, samples, _ = bind(message("a/b", '{"t"', payloadlen=40) + message("a/b", GOOD.decode()) + b'{"topic": "a/')
    assert code == 65
    assert samples[0]["refused"]["found"].startswith("4 of 40 bytes")
    assert samples[1]["outcome"] == "accepted"
    assert samples[2]["refused"]["found"].startswith("a line that is no message")


def test_a_capture_of_bytes_that_are_no_text_keeps_them(bind: Bind) -> None:
    frame = '{"t": 68, "rh": 50, "p": 990, "u": "\u00b0"}'
    latin = message("a", frame, payloadlen=len(frame)).decode().encode("latin-1")
    _, (sample,), _ = bind(latin)
    assert sample["refused"]["reason"] == "bad_encoding"
    bind.config.write_text(bind.config.read_text().replace('"json"', '"json"\nencoding = "latin-1"'))
    assert bind(latin)[0] == 0


def test_a_recording_of_the_line_is_a_capture_too(bind: Bind) -> None:
    first = encode_chunk(1, b"") + encode_chunk(1_800_000_000_000_000_000, b"ut" + b"\n" + GOOD[:9])
    recording = MAGIC + first + encode_chunk(1_800_000_000_000_000_001, GOOD[9:])
    code, samples, _ = bind(recording)
    assert (code, [one["outcome"] for one in samples]) == (0, ["accepted"])
    assert bind(recording + b"no record")[0] == 65


def test_standard_input(bind: Bind, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ([], ["-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD)))
        assert main(["bind", "--dry-run", "--config", str(bind.config), *words]) == 0


def test_what_is_wrong_before_any_payload(bind: Bind, tmp_path: Path, capsysbinary: Any) -> None:
    config = str(bind.config)
    assert main(["bind", "--config", config]) == 2
    assert main(["bind", "--dry-run", "--config", config, str(tmp_path / "none")]) == 2
    assert main(["bind", "--dry-run", "--config", config, "--line", "nome"]) == 2
    good = bind.config.read_text()
    bind.config.write_text(good.replace("[degF]", "furlong"))
    assert main(["bind", "--dry-run", "--config", config]) == 78
    bind.config.write_text(good.replace(str(DEWPOINT), str(tmp_path)))
    assert main(["bind", "--dry-run", "--config", config]) == 65
    errors = capsysbinary.readouterr().err.decode().splitlines()
    assert len(errors) == 5
    assert "no --dry-run" in errors[0]


def test_neither_a_session_nor_a_source_is_opened(bind: Bind, tmp_path: Path) -> None:
    """Not even what could open one is loaded; in a process of its own, for this one has loaded everything."""
    (tmp_path / "payload").write_bytes(GOOD)
    program = (
        "import sys; from edge_runtime.cli import main; code = main(sys.argv[1:]);"
        " sys.exit(code or bool({'onnxruntime', 'serial', 'paho'} & set(sys.modules)))"
    )
    words = ["bind", "--dry-run", "--config", str(bind.config), str(tmp_path / "payload")]
    ran = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["outcome"] == "accepted"


def test_it_refuses_exactly_what_the_line_refuses(bind: Bind) -> None:
    """The same frames through a whole line, its model aside."""
    bind.config.write_text(
        bind.config.read_text().replace('"json"', '"json"\nstream = "who"\ntime = { field = "at", format = "unix_s" }')
    )
    frames = [
        json.dumps({"t": t, "rh": rh, "p": 990, "who": who, "at": at}).encode()
        for t, rh, who, at in [
            (68, 50, "a", 1000), (68, 50, "a", 1000), (68, 51, "a", 1000), (68, 50, "a", 990), (68, 50, "b", 990),
            (None, 50, "a", 1010), ("68", 50, "a", 1020), (1e9, 50, "a", 1030), (68, -1, "a", 1040), (68, 50, "", 1050),
            (68, 50, "a", "x"), (68, 50, "a", 1060), (68, 50, "a" * 101, 1060),
        ]
    ]  # fmt: skip
    _, samples, _ = bind(b"\n".join(frames))
    config = load_config(bind.config).config.line[0]
    manifest = manifest_of(verify(read_files(DEWPOINT), "dewpoint"))
    model = Model(manifest, manifest.variants[0], "0" * 64, lambda _: {"y": np.zeros((1, 1), np.float32)})
    whole = Line(
        name="roof",
        model=model,
        contract=Contract(manifest.channels, config.channels),
        framing=make_framing(config.framing, "utf-8"),
        decoder=make_decoder(config.decode, {one.name: config.channels[one.name] for one in manifest.channels}),
    )
    for frame in frames:
        whole.feed_frame(frame, 2_000_000_000_000)
    refused = [sample["refused"]["reason"] for sample in samples if sample["outcome"] == "refused"]
    assert refused == [one.rejection.reason for one in whole.take_refused()]
    assert len(refused) > 6
    outcomes = [sample["outcome"] for sample in samples]
    assert outcomes.count("accepted") == whole.ledger.accepted == 3
    assert outcomes.count("duplicate") == whole.ledger.duplicate == 1
