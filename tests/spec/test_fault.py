"""A key left out is told by its name, never in the words of the library that missed it."""

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError, field_validator

from edge_runtime.spec.fault import expected_by, is_missing
from edge_runtime.spec.frozen import Sha256


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


def test_a_digest_that_is_none_is_told_without_a_regular_expression():
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Sha256).validate_python("none")
    (fault,) = caught.value.errors()
    assert expected_by(fault) == "64 hexadecimal digits in lower case, as sha256sum prints them"
