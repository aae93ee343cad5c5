"""One fault of a pydantic validation in a person's words; it chooses none and raises nothing."""

from collections.abc import Mapping
from typing import Any


def expected_by(fault: Mapping[str, Any]) -> str:
    """What was expected where ``fault`` lies, one entry of ``ValidationError.errors``: of a key left out, its value."""
    if is_missing(fault):
        return f"a value for {fault['loc'][-1]}"
    return str(fault["msg"]).removeprefix("Value error, ")


def is_missing(fault: Mapping[str, Any]) -> bool:
    """Whether the key itself was not there; ``fault["input"]`` is then the table around it."""
    return bool(fault["type"] == "missing")
