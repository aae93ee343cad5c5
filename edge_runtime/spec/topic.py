"""MQTT topic names and filters as words: what is one, what matches what, what a variable stands for; it connects nothing."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

MAX_TOPIC_BYTES = 65_535
_VARIABLE = re.compile(r"\{([^{}]*)\}")
# What a broker may hang up on (MQTT 5, 1.5.4), as mosquitto does.
_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
_VARIABLES = ("device", "line")


def filled(topic: str, *, device: str, line: str = "") -> str:
    """``topic`` with ``{device}`` and ``{line}`` replaced by their names."""
    return topic.replace("{device}", device).replace("{line}", line)


def matches(pattern: str, topic: str) -> bool:
    """Whether a topic filter takes a topic name (MQTT 5, 4.7): '+' is one level, '#' the rest, neither takes a '$' first."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in {"+", "#"}:
        return False
    for at, one in enumerate(wanted):
        if one == "#":
            return True
        if at == len(levels) or one not in {"+", levels[at]}:
            return False
    return len(wanted) == len(levels)


def level_of(topic: str, level: int | None) -> str:
    """The level of a topic name that names a stream, the first is 1; empty where none is asked for, or there."""
    if level is None:
        return ""
    levels = topic.split("/")
    return levels[level - 1] if level <= len(levels) else ""


def _check(text: str) -> None:
    if _NO_TEXT.search(text) or len(text.encode()) > MAX_TOPIC_BYTES:
        raise ValueError(f"a topic has no control characters and at most {MAX_TOPIC_BYTES} bytes")
    unknown = [name for name in _VARIABLE.findall(text) if name not in _VARIABLES]
    if unknown:
        raise ValueError(f"a topic's variables are {{device}} and {{line}}; {{{unknown[0]}}} is none")


def check_name(text: str) -> str:
    """Raise ValueError unless ``text`` can be published to: no wildcard, none of the broker's own topics."""
    _check(text)
    if "+" in text or "#" in text or text.startswith("$"):
        raise ValueError("a topic to publish to has no '+', no '#' and does not begin with '$'")
    return text


def check_filter(text: str) -> str:
    """Raise ValueError unless ``text`` is a topic filter that every sample of a stream comes through."""
    _check(text)
    if text.startswith("$share/"):
        # A broker deals a shared subscription out in turn: no window would ever be whole.
        raise ValueError("a shared subscription splits a stream's samples; name the topics of each device instead")
    levels = text.split("/")
    if any(("#" in one and (one != "#" or at + 1 < len(levels))) for at, one in enumerate(levels)):
        raise ValueError("'#' stands alone, as the last level of a topic filter")
    if any("+" in one and one != "+" for one in levels):
        raise ValueError("'+' stands for a whole level of a topic filter")
    return text


TopicName = Annotated[str, Field(min_length=1), AfterValidator(check_name)]
TopicFilter = Annotated[str, Field(min_length=1), AfterValidator(check_filter)]
