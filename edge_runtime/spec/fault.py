"""One fault of a pydantic validation in a person's words; it chooses none and raises nothing."""

from collections.abc import Mapping
from typing import Any

from edge_runtime.spec.frozen import SHA256_PATTERN


def expected_by(fault: Mapping[str, Any]) -> str:
    """What was expected where ``fault`` lies, one entry of ``ValidationError.errors``: of a key left out, its value."""
    if is_missing(fault):
        return f"a value for {fault['loc'][-1]}"
    if fault.get("ctx", {}).get("pattern") == SHA256_PATTERN:
        return "64 hexadecimal digits in lower case, as sha256sum prints them"
    return str(fault["msg"]).removeprefix("Value error, ")


def is_missing(fault: Mapping[str, Any]) -> bool:
    """Whether the key itself was not there; ``fault["input"]`` is then the table around it."""
    return bool(fault["type"] == "missing")
