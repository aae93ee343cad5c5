"""NMEA 0183 sentences: checked and taken out of their '$...*HH'; what a sentence means is the decoder's part."""

import re
from functools import reduce
from operator import xor
from typing import Literal

from edge_runtime.flow.framing_parts import Reader
from edge_runtime.flow.quoting import quote
from edge_runtime.spec.reading import Damaged, Rejection

# An address is a talker and a sentence, or P and a maker's own. The characters that begin and end a sentence are
# reserved: so what a lost line end has joined falls apart again. All others are printable, which the XOR needs: a zero
# byte would not change it.
_SENTENCE = re.compile(rb"[$!]([A-Z][A-Z0-9]{2,15}(?:,[ -)+-~]*+)?+)(?:\*([0-9A-Fa-f]{2}))?+[ \t]*+")
_START = re.compile(rb"(?=[$!])")


def nmea_reader(checksum: Literal["required", "if_present"]) -> Reader:
    """Give the reader of one line, which mostly is one sentence; a frame is what stands between '$' or '!' and '*'."""
    required = checksum == "required"

    def read(line: bytes) -> list[bytes | Damaged]:
        return [_read(part, required=required) for part in _START.split(line) if part and not part.isspace()]

    return read


def _read(part: bytes, *, required: bool) -> bytes | Damaged:
    match = _SENTENCE.fullmatch(part)
    if match is None:
        todo = "a rare one is a disturbed line; check the baud rate, and framing.kind"
        refused = Rejection("bad_frame", "sentence", quote(part), "NMEA 0183, such as $GPGGA,...*47", todo)
        return Damaged(refused, part)
    body, sent = match.groups()
    if sent is None and not required:
        return body
    computed = b"%02X" % reduce(xor, body)
    if sent is not None and sent.upper() == computed:
        return body
    found = f"no checksum in {quote(part)}" if sent is None else f"checksum *{sent.decode()} in {quote(part)}"
    todo = 'set framing.checksum = "if_present" if the sender has none' if sent is None else "look at the cable"
    return Damaged(Rejection("bad_checksum", "sentence", found, f"*{computed.decode()}", todo), part)
