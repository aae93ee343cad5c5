"""Every parser of foreign bytes, fed with valid ones spoiled by chance: each is read or refused as it says, and takes no time.

Plain bytes by hypothesis stand in the tests of each parser; these begin with what is valid, and so come deeper.
"""

import io
import os
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import mqtt5
import numpy as np
import pytest
from pydantic import TypeAdapter

from edge_runtime.bundle.arrays import read_arrays
from edge_runtime.bundle.golden import decode as decode_goldens
from edge_runtime.bundle.signature_file import (
    Envelope,
    encode_envelope,
    encode_statement,
    parse_envelope,
    parse_statement,
)
from edge_runtime.bundle.tar import format_tar, read_tar
from edge_runtime.bundle.verify import verify
from edge_runtime.bundle.write import sums
from edge_runtime.engine.tensor_frames import CALL, BadFrame, Inbox, Outbox
from edge_runtime.errors import BundleError
from edge_runtime.flow.captured_payloads import payloads
from edge_runtime.flow.decode import make_decoder
from edge_runtime.flow.framing import MessageFramer, make_framing
from edge_runtime.flow.recording import MAGIC, RecordingError, RecordingReader, encode_chunk
from edge_runtime.flow.sparkplug import framed
from edge_runtime.links.mqtt5_link import Mqtt5
from edge_runtime.links.mqtt_dialect import StreamLost, Target
from edge_runtime.links.paho_link import Mqtt311
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.framing import Framing
from edge_runtime.spec.manifest import parse
from edge_runtime.spec.payload import Decode
from edge_runtime.spec.reading import Pack, Reading, Rejection
from tests.proof.spoiled import spoiled
from tests.rig.bundles import FROST, ROOT, files_of
from tests.rig.sparkplug_pb import UINT64, metric, payload

COUNT, COUNT_LONG = 1000, 20_000
MAX_PACKET_BYTES = 4096


class Parser(NamedTuple):
    """What reads foreign bytes, and valid ones; of bytes that are not, it may raise ``refusals`` and nothing else."""

    name: str
    samples: Sequence[bytes]
    read: Callable[[bytes], object]
    refusals: tuple[type[BaseException], ...] = ()


def _bundle_parsers() -> list[Parser]:
    refused = (BundleError,)
    small = {"manifest.json": b"{}", "model.onnx": b"m" * 700}
    archive = b"".join(format_tar({**small, "SHA256SUMS": sums(small)}))
    goldens = next(data for name, data in files_of(FROST).items() if name.endswith(".npz"))
    stated = encode_statement({"manifest.json": "0" * 64, "model.onnx": "1" * 64})
    signed = encode_envelope(Envelope(payload=stated, made=b"0" * 70, hint="2" * 64))

    def listed(data: bytes) -> None:
        verify({**small, "SHA256SUMS": data}, "b")

    def tar(data: bytes) -> None:
        read_tar(io.BytesIO(data), len(data), "b", max_total_bytes=1 << 20, max_files=64)

    def npz(data: bytes) -> None:
        read_arrays(data, subject="a.npz", max_bytes=1 << 20)

    def golden(data: bytes) -> None:
        decode_goldens(data, subject="golden.npz")

    return [
        Parser("manifest", [path.read_bytes() for path in ROOT.glob("bundles/*/manifest.json")], parse, refused),
        Parser("SHA256SUMS", [sums(small)], listed, refused),
        Parser("tar", [archive], tar, refused),
        Parser("npz", [goldens], npz, refused),
        Parser("goldens", [goldens], golden, refused),
        Parser("signature's envelope", [signed], parse_envelope, refused),
        Parser("signature's statement", [stated], parse_statement, refused),
    ]


FRAMINGS: dict[str, tuple[dict[str, Any], list[bytes]]] = {
    "lines": ({"kind": "lines"}, [b"1,2\r\n3,4\n", b"a\nb\r"]),
    "nmea": ({"kind": "nmea", "checksum": "required"}, [b"$WIMWV,214.8,R,0.1,M,A*3C\r\n" * 2]),
    "cobs": ({"kind": "cobs", "crc": None}, [b"\0\x03ab\x02c\0\x05wxyz\0"]),
    "slip": ({"kind": "slip", "crc": None}, [b"\xc0abc\xdb\xdc\xc0\xc0de\xdb\xdd\xc0"]),
    "packet": (
        {"kind": "packet", "sync": "AA55", "length": {"type": "uint16", "byte_order": "big"},
         "crc": {"name": "crc-16/modbus", "byte_order": "little"}, "crc_covers": "payload"},
        [b"\xaaU\0\x03abcIW\xaaU\0\x01z>\xa3"],
    ),
    "block": ({"kind": "block"}, [b"#15hello\n#3004abcd\n"]),
}  # fmt: skip


def _framing(spec: dict[str, Any]) -> Callable[[bytes], object]:
    form: Any = TypeAdapter(Framing).validate_python(spec)
    chance = random.Random(1)

    def read(data: bytes) -> None:
        framer = make_framing(form, "utf-8")
        at = 0
        while at < len(data):
            size = chance.choice((1, 3, 50, 5000))
            framer.feed(data[at : at + size])
            assert framer.pending_bytes <= len(data)
            at += size
        framer.flush()
        assert framer.pending_bytes == 0

    return read


def _field(name: str, **keys: Any) -> dict[str, ChannelBinding]:
    return {"x": ChannelBinding(field=name, **keys)}


T0 = 1_700_000_000_000
_TIME = {"field": "t", "format": "iso8601"}
_SENML = {"vocabulary": "senml", "unit_field": "u"}
_NODE = "spBv1.0/plant/{}/press/oven"
DECODERS: dict[str, tuple[dict[str, Any], dict[str, ChannelBinding], list[bytes]]] = {
    "csv": ({"columns": ["t", "x"], "time": _TIME}, _field("x", unit="1"), [b"2025-02-04T22:00:00Z,1.5"]),
    "json": ({"time": _TIME}, _field("x", unit="1"), [b'{"t":"2025-02-04T22:00:00Z","x":1.5,"y":[{"z":null}]}']),
    "pattern": ({"pattern": "S {state:word} {x:number} g"}, _field("x", unit="g"), [b"S S     12.345 g"]),
    "nmea": ({"sentence": "MWV"}, _field("1", unit="deg"), [b"WIMWV,214.8,R,0.1,M,A"]),
    "scpi": ({"fields": ["x", "y"]}, _field("x", unit="V"), [b"+1.50000000E+00,-2.5E-03", b"9.9E37,0"]),
    "struct": (
        {"byte_order": "little", "fields": [{"name": "x", "type": "float32"}, {"type": "uint8", "count": 3}]},
        _field("x", unit="1"), [b"\0\0\x80?abc"],
    ),
    "modbus": (
        {"registers": [{"name": "x", "slave": 1, "table": "holding", "address": 0, "type": "uint16"}]},
        _field("x", unit="1"), [b"\x01\x03\x00\x00\x00\x01\x00\x05"],
    ),
    "senml+json": ({}, _field("x", **_SENML), [b'[{"bn":"a:","bt":1700000000,"n":"x","u":"Cel","v":1.5}]']),
    "senml+cbor": ({}, _field("x", **_SENML), [b"\x81\xa3\x00ax\x01cCel\x02\xfb?\xf8" + bytes(6)]),
    "sparkplug": (
        {}, _field("x", unit="Cel"),
        [
            framed("spBv1.0/plant/NBIRTH/press", payload([metric(0, UINT64, name="bdSeq")], seq=0, at=T0)),
            framed(_NODE.format("DBIRTH"), payload([metric(20.0, name="x", alias=1, at=T0)], seq=1, at=T0)),
            framed(_NODE.format("DDATA"), payload([metric(21.0, alias=1, at=T0, tell_type=False)], seq=2, at=T0)),
        ],
    ),
}  # fmt: skip


def _decoding(name: str) -> Parser:
    keys, channels, samples = DECODERS[name]
    decoder = make_decoder(TypeAdapter[Any](Decode).validate_python({"format": name} | keys), channels)

    def read(data: bytes) -> None:
        assert isinstance(decoder.decode(data), Reading | Rejection | Pack | None)

    return Parser(f"decode {name}", samples, read)


class Listener:
    """The connection, as a dialect tells it: it takes everything and answers nothing."""

    def put(self, data: bytes) -> None:
        """What it would send."""

    def free_id(self) -> int:
        return 1

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_words, **_named: None


def _target() -> Target:
    return Target(
        host="localhost", port=1, client_id="c", user=None, password=lambda: None, tls=None, keepalive_s=60,
        session_expiry_s=0, receive_maximum=20, max_packet_bytes=MAX_PACKET_BYTES, reconnect_max_s=1.0,
        status_topic="s", will=lambda: None,
    )  # fmt: skip


PACKETS = [
    mqtt5.ConnAckPacket(session_present=True, receive_max=3, reason_str="why").write(),
    mqtt5.PublishPacket("in/a", b"x" * 200, qos=mqtt5.QoS.AT_LEAST_ONCE, packet_id=7, subscription_ids=[1]).write(),
    mqtt5.PublishPacket("in/a", b"").write(),
    mqtt5.PubAckPacket(7, reason_str="no").write(),
    mqtt5.SubAckPacket(1, [mqtt5.SubAckReasonCode.GRANTED_QOS_AT_LEAST_ONCE]).write(),
    mqtt5.DisconnectPacket(reason_str="bye").write(),
    mqtt5.PingRespPacket().write(),
]
OLD_PACKETS = [b"\x20\2\0\0", b"\x30\x06\0\4in/ax", b"\x32\x09\0\4in/a\0\7x", b"\x40\2\0\7", b"\x90\3\0\1\1", b"\xd0\0"]


class Silence:
    """A stream that takes everything, for paho, which says CONNECT as soon as it has one."""

    def send(self, data: bytes) -> int:
        return len(data)


def _mqtt(dialect: Callable[[Any, Any], Any]) -> Callable[[bytes], object]:
    chance = random.Random(2)

    def read(data: bytes) -> None:
        speaker = dialect(_target(), Listener())
        speaker.connect(Silence())
        at = 0
        while at < len(data):
            size = chance.choice((1, 5, 100, 5000))
            speaker.read(data[at : at + size])
            at += size

    return read


def _frames() -> Parser:
    _, buffers = Outbox().pack(CALL, 7, [(0, np.arange(6, dtype=np.float32).reshape(2, 3)), (1, np.array(True))])
    sample = b"".join(bytes(one) if isinstance(one, bytes) else one.tobytes() for one in buffers)

    def read(data: bytes) -> None:
        out, into = os.pipe()
        with open(out, "rb", buffering=0):  # noqa: PTH123 -- a descriptor
            os.write(into, data)
            os.close(into)  # so that nothing waits for more
            inbox = Inbox()
            while not inbox.take(out):
                pass
            inbox.frame()

    return Parser("frames of a session's process", [sample], read, (BadFrame, EOFError))


def _files() -> list[Parser]:
    def captured(data: bytes) -> None:
        for _ in payloads(io.BytesIO(data), MessageFramer(4096, is_text=True), is_text=True):
            pass

    def recorded(data: bytes) -> None:
        reader = RecordingReader()
        reader.feed(data)
        reader.feed(b"")

    captures = [b'{"tst":"2025-02-04T22:00:00.000000Z+0000","topic":"a","qos":0,"retain":0,"payload":"{}"}\n', b"1,2\n"]
    recording = MAGIC + b"".join(encode_chunk(at, b"abc") for at in range(3))
    return [
        Parser("captured payloads", captures, captured),
        Parser("recording", [recording], recorded, (RecordingError,)),
    ]


PARSERS = [
    *_bundle_parsers(),
    *(Parser(f"framing {name}", samples, _framing(spec)) for name, (spec, samples) in FRAMINGS.items()),
    *map(_decoding, DECODERS),
    Parser("MQTT 5", PACKETS, _mqtt(Mqtt5), (StreamLost,)),
    Parser("MQTT 3.1.1", OLD_PACKETS, _mqtt(Mqtt311), (StreamLost,)),
    _frames(),
    *_files(),
]
# mqtt5 0.8 panics at text that is no UTF-8, as `links.mqtt5_link` says, and Python tells what was left behind it.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
every_parser = pytest.mark.parametrize("parser", PARSERS, ids=lambda one: one.name)


@every_parser
def test_what_is_valid_is_read(parser: Parser) -> None:
    """Else the spoiled ones would come no deeper than plain noise."""
    for sample in parser.samples:
        parser.read(sample)


@every_parser
def test_what_is_spoiled_is_read_or_refused(parser: Parser) -> None:
    for data in spoiled(1, COUNT, parser.samples):
        with suppress(*parser.refusals):
            parser.read(data)


@pytest.mark.long
@every_parser
@pytest.mark.parametrize("seed", range(2, 5))
def test_what_is_spoiled_is_read_or_refused_under_other_seeds(parser: Parser, seed: int) -> None:
    for data in spoiled(seed, COUNT_LONG, parser.samples):
        with suppress(*parser.refusals):
            parser.read(data)
