"""NMEA 0183 sentences by field number: from any talker or one, empty fields missing, other sentences passed over."""

import pytest
from pydantic import ValidationError

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.decode import make_decoder
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import NmeaDecode
from edge_runtime.spec.reading import Reading, Rejection

CHANNELS = {"speed": ChannelBinding(field="3", unit="m/s"), "angle": ChannelBinding(field="1", unit="deg")}


def decoder(sentence="MWV", channels=CHANNELS, **keys):
    return make_decoder(NmeaDecode.model_validate({"format": "nmea", "sentence": sentence} | keys), channels)


def test_a_sentence_is_a_reading_by_field_number() -> None:
    one = decoder(status={"field": "5", "accept": ["A"]}, carry=["2"])
    assert one.decode(b"WIMWV,214.8,R,0.1,M,A") == Reading((0.1, 214.8), None, "", None, (("2", "R"),))
    refused = one.decode(b"WIMWV,214.8,R,0.1,M,V")
    assert isinstance(refused, Rejection)
    assert refused.reason == "bad_status"


@pytest.mark.parametrize(
    ("sentence", "frame", "is_taken"),
    [
        ("MWV", b"WIMWV,1,R,2", True),
        ("MWV", b"IIMWV,1,R,2", True),
        ("MWV", b"MWV,1,R,2", True),
        ("MWV", b"WIMWD,1,R,2", False),
        ("MWV", b"PIMWV,1,R,2", False),
        ("MWV", b"XWIMWV,1,R,2", False),
        ("WIMWV", b"WIMWV,1,R,2", True),
        ("WIMWV", b"IIMWV,1,R,2", False),
        ("PGRME", b"PGRME,1,R,2", True),
    ],
)
def test_which_sentences_are_samples(sentence: str, frame: bytes, is_taken: bool) -> None:
    assert decoder(sentence).decode(frame) == (Reading((2.0, 1.0)) if is_taken else None)


def test_an_empty_field_is_missing() -> None:
    assert decoder().decode(b"WIMWV,,R,0.1") == Reading((0.1, None))


@pytest.mark.parametrize(
    ("frame", "reason", "says"),
    [
        (b"WIMWV,1,R", "wrong_columns", "sentence: found 2 fields in b'WIMWV,1,R'; expected 3 or more"),
        (b"WIMWV,1,R,1_0", "not_a_number", "field '3': found '1_0'"),
        (b"WIMWV,1,R,\xff", "bad_encoding", "expected text in ascii"),
    ],
)
def test_refusals(frame: bytes, reason: str, says: str) -> None:
    refused = decoder().decode(frame)
    assert isinstance(refused, Rejection)
    assert refused.reason == reason
    assert says in str(refused)


@pytest.mark.parametrize("field", ["0", "100", "speed", "-1", "1.0", "²"])
def test_a_field_is_a_number(field: str) -> None:
    with pytest.raises(ConfigurationError, match="count the fields of MWV as its description does, from 1"):
        decoder(channels={"speed": ChannelBinding(field=field)})


def test_no_arrays() -> None:
    with pytest.raises(ConfigurationError, match="a sentence has no arrays"):
        decoder(channels={"speed": ChannelBinding(field="1", read="list")})


def test_a_sentence_is_named_as_it_is_sent() -> None:
    for wrong in ("$WIMWV", "mwv", "WV", "MWV,"):
        with pytest.raises(ValidationError, match="pattern"):
            decoder(wrong)


PLACE = {
    "latitude": ChannelBinding(field="2", unit="deg", read="degrees_minutes"),
    "longitude": ChannelBinding(field="4", unit="deg", read="degrees_minutes"),
}


@pytest.mark.parametrize(
    ("cells", "degrees"),
    [
        (b"4807.038,N,01131.000,E", (48.1173, 11.516666666666667)),
        (b"4807.038,S,01131.000,W", (-48.1173, -11.516666666666667)),
        (b"0000.000,N,00000,E", (0.0, 0.0)),
        (b"9000.000,S,18000.0,W", (-90.0, -180.0)),
        (b",,,", (None, None)),
        (b"4807.038,N,,", (48.1173, None)),
    ],
)
def test_a_place_is_read_in_degrees(cells: bytes, degrees: tuple[float | None, float | None]) -> None:
    read = decoder("GGA", PLACE).decode(b"GPGGA,123519," + cells + b",1")
    assert isinstance(read, Reading)
    assert read.values == pytest.approx(degrees)


@pytest.mark.parametrize(
    "cells",
    [
        *(b"4807.038,E,01131.000,E", b"4807.038,N,1131.000,E", b"4860.000,N,01131.000,E", b"9000.001,N,01131.000,E"),
        *(b"4807.038,,01131.000,E", b",N,01131.000,E", b"-4807.038,N,01131.000,E", b"4807.038,n,01131.000,E"),
        *(b"48.1173,N,01131.000,E", b"4807.038,N,18000.001,E", b"48 7.038,N,01131.000,E"),
    ],
)
def test_a_place_that_is_none_is_refused_in_words(cells: bytes) -> None:
    refused = decoder("GGA", PLACE).decode(b"GPGGA,123519," + cells + b",1")
    assert isinstance(refused, Rejection)
    assert refused.reason == "not_a_number"
    assert "expected ddmm.mmmm,N or dddmm.mmmm,E, or S or W" in str(refused)


def test_the_hemisphere_must_be_in_the_sentence() -> None:
    refused = decoder("GGA", PLACE).decode(b"GPGGA,123519,4807.038,N,01131.000")
    assert isinstance(refused, Rejection)
    assert refused.reason == "wrong_columns"
