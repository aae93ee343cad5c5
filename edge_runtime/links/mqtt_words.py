"""What a broker's reason codes mean, in plain words (MQTT 5, 2.4); it decides nothing."""

from typing import Final

_WORDS: Final = {
    0x80: "it gives no reason",
    0x81: "it could not read what we sent",
    0x82: "it says we broke the protocol",
    0x83: "it says it cannot do that",
    0x84: "it does not speak this version",
    0x85: "it does not take this client id",
    0x86: "wrong user name or password",
    0x87: "not authorized",
    0x88: "it is not available",
    0x89: "it is busy",
    0x8A: "this client is banned",
    0x8B: "it is shutting down",
    0x8C: "it wants another way to log in",
    0x8D: "it heard nothing from us for too long",
    0x8E: "another client has taken over the session",
    0x8F: "it does not take this topic filter",
    0x90: "it does not take this topic",
    0x91: "it says the packet id is in use",
    0x93: "we sent more than it takes at once",
    0x94: "it does not take topic aliases",
    0x95: "the packet is larger than it takes",
    0x96: "we send too often",
    0x97: "a quota is used up",
    0x98: "its administrator ended the connection",
    0x99: "it does not take this kind of payload",
    0x9A: "it keeps no retained messages",
    0x9B: "it does not offer this quality of service",
    0x9C: "it sends us to another server",
    0x9D: "it has moved to another server",
    0x9E: "it has no shared subscriptions",
    0x9F: "we connect too often",
    0xA0: "the connection has lasted as long as it allows",
    0xA2: "it has no wildcards",
}


def words_of(code: int, told: str | None = None) -> str:
    """What ``code`` means, and what the broker itself ``told``, as a clause."""
    known = f"{_WORDS.get(code, 'a reason not known here')} (0x{code:02X})"
    return f"{known}: {' '.join(told.split())[:200]!r}" if told else known
