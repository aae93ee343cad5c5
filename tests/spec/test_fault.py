"""A key left out is told by its name, never in the words of the library that missed it."""

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from edge_runtime.spec.fault import expected_by, is_missing


class _Point(BaseModel):
    x: int

    @field_validator("x")
    @classmethod
    def _small(cls, x: int) -> int:
        if x > 9:
            raise ValueError("a number below 10")
        return x


@pytest.mark.parametrize(
    ("given", "expected", "missing"), [({}, "a value for x", True), ({"x": 10}, "a number below 10", False)]
)
def test_what_was_expected(given, expected, missing):
    with pytest.raises(ValidationError) as caught:
        _Point.model_validate(given)
    (fault,) = caught.value.errors()
    assert (expected_by(fault), is_missing(fault)) == (expected, missing)
