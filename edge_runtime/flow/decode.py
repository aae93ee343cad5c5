"""One frame of bytes -> its Reading or several, or why it is none; it converts no unit and judges no value."""

from collections.abc import Mapping

from edge_runtime.flow.decode_csv import CsvDecoder
from edge_runtime.flow.decode_json import JsonDecoder
from edge_runtime.flow.decode_nmea import NmeaDecoder
from edge_runtime.flow.decode_pattern import PatternDecoder
from edge_runtime.flow.decode_struct import StructDecoder
from edge_runtime.flow.decoder import Decoder
from edge_runtime.flow.number_file import NumberFiles
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import (
    CsvDecode,
    Decode,
    JsonDecode,
    ModbusDecode,
    NmeaDecode,
    ScpiDecode,
    SenmlDecode,
    SparkplugDecode,
    StructDecode,
)


def make_decoder(  # noqa: PLR0911 (one exit per format)
    decode: Decode, channels: Mapping[str, ChannelBinding], files: Mapping[str, NumberFiles] | None = None
) -> Decoder:
    """Resolve columns, pointers and patterns once; values come in the order of ``channels``.

    ``files`` has an entry for each channel with ``read = "file"``.

    Raises ConfigurationError where a bound field cannot be in any frame, or the pattern or a pointer is malformed.
    """
    if isinstance(decode, CsvDecode):
        return CsvDecoder(decode, channels, files or {})
    if isinstance(decode, JsonDecode):
        return JsonDecoder(decode, channels, files or {})
    if isinstance(decode, StructDecode):
        return StructDecoder(decode, channels, files or {})
    if isinstance(decode, NmeaDecode):
        return NmeaDecoder(decode, channels, files or {})
    if isinstance(decode, ScpiDecode):
        from edge_runtime.flow.decode_scpi import ScpiDecoder  # noqa: PLC0415 -- for lines that have such an instrument

        return ScpiDecoder(decode, channels, files or {})
    if isinstance(decode, ModbusDecode):
        from edge_runtime.flow.decode_modbus import ModbusDecoder  # noqa: PLC0415 -- for lines that have slaves

        return ModbusDecoder(decode, channels, files or {})
    if isinstance(decode, SenmlDecode):
        from edge_runtime.flow.decode_senml import SenmlDecoder  # noqa: PLC0415 -- no other line needs CBOR

        return SenmlDecoder(decode, channels)
    if isinstance(decode, SparkplugDecode):
        from edge_runtime.flow.decode_sparkplug import SparkplugDecoder  # noqa: PLC0415 -- for who has such nodes

        return SparkplugDecoder(decode, channels)
    return PatternDecoder(decode, channels, files or {})
