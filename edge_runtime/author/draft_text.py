"""Names and texts as a drafted contract spells them: safe in TOML, one line each; it decides nothing."""

import json
import re
from collections.abc import Sequence


def channel_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Column headings as names of the contract: lower case, digits and underscores, each another."""
    found: list[str] = []
    for at, text in enumerate(texts):
        # An exponent or a bracket at the end of a heading is mostly a unit: kept, since it is a hint for the reader.
        plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:48]
        name = plain if plain[:1].isalpha() else f"channel_{plain or at}"
        while name in found:
            name += "_2"
        found.append(name)
    return tuple(found)


def quoted(text: str) -> str:
    """A TOML basic string: JSON's escapes are among TOML's, and DEL, which JSON lets through, is escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def listed(texts: Sequence[str]) -> str:
    """A TOML array of texts."""
    return "[" + ", ".join(map(quoted, texts)) + "]"


def comment(text: str) -> str:
    """One line of printable letters."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
