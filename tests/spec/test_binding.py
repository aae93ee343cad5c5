"""What a binding accepts, and each thing it refuses."""

import datetime as dt
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from edge_runtime.spec.binding import ChannelBinding, Correction
from edge_runtime.spec.framing import LinesFraming
from edge_runtime.spec.payload import CsvDecode, Decode, JsonDecode, PatternDecode, StatusField, TimeField

DAY = dt.date(2025, 1, 28)


def test_decode_is_chosen_by_its_format() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(Decode)
    assert isinstance(adapter.validate_python({"format": "csv", "columns": "header"}), CsvDecode)
    assert isinstance(adapter.validate_python({"format": "json", "carry": ["id"]}), JsonDecode)
    assert isinstance(adapter.validate_python({"format": "pattern", "pattern": "{m:number}"}), PatternDecode)
    with pytest.raises(ValidationError):
        adapter.validate_python({"format": "xml"})


def test_every_key_is_explained() -> None:
    for model in (
        LinesFraming,
        TimeField,
        StatusField,
        Correction,
        ChannelBinding,
        CsvDecode,
        JsonDecode,
        PatternDecode,
    ):
        for name, field in model.model_fields.items():
            assert name in {"format", "kind"} or field.description, f"{model.__name__}.{name}"


@pytest.mark.parametrize(
    ("model", "keys", "says"),
    [
        (LinesFraming, {"max_bytes": 0}, "greater than or equal to 1"),
        (LinesFraming, {"max_bytes": 16_777_217}, "less than or equal to 16777216"),
        (LinesFraming, {"line_end": "crlf"}, "'any', 'lf' or 'cr'"),
        (LinesFraming, {"maxbytes": 3}, "Extra inputs"),
        (TimeField, {"field": "t", "format": "iso"}, "iso8601"),
        (TimeField, {"field": "t", "format": "%H:%M:%S"}, "year, month and day"),
        (TimeField, {"field": "t", "format": "%Y-%m-%d %I:%M"}, "'%I' with '%p'"),
        (TimeField, {"field": "t", "format": "%Y-%m-%d %H:%M %Z"}, "use '%z'"),
        (TimeField, {"field": "t", "format": "%Y-%m-%d %!"}, "strptime"),
        (TimeField, {"field": "t", "format": "iso8601", "utc_offset_minutes": 1440}, "less than 1440"),
        (StatusField, {"field": "s", "accept": []}, "at least 1 item"),
        (Correction, {"a": 0.0, "date": DAY}, "a = 0"),
        (Correction, {"a": float("nan"), "date": DAY}, "finite"),
        (Correction, {"b": float("inf"), "date": DAY}, "finite"),
        (Correction, {"date": DAY, "expires": dt.date(2025, 1, 27)}, "lies before"),
        (Correction, {"a": 1.1}, "date"),
        (ChannelBinding, {"field": "t", "unit_map": {"C": "Cel"}}, "belongs to unit_field without"),
        (ChannelBinding, {"field": "t", "unit_field": "u", "unit_map": {}}, "at least 1 item"),
        (ChannelBinding, {"field": "t", "read": "text", "missing_values": [0]}, "belongs to single numbers"),
        (ChannelBinding, {"field": "t", "missing_values": [float("nan")]}, "finite"),
        (ChannelBinding, {"field": ""}, "at least 1 character"),
        (ChannelBinding, {"field": "t", "vocabulary": "mine"}, "ucum"),
        (CsvDecode, {"columns": "header", "separator": ",", "decimal": ","}, "could not be told from a number"),
        (CsvDecode, {"columns": "header", "separator": "ab"}, "at most 1 character"),
        (CsvDecode, {"columns": "header", "separator": "e"}, "may stand inside a cell"),
        (CsvDecode, {"columns": "header", "separator": '"'}, "may stand inside a cell"),
        (CsvDecode, {"columns": "header", "separator": "-"}, "may stand inside a cell"),
        (CsvDecode, {"columns": ["a", "b", "a"]}, "'a' stands twice"),
        (CsvDecode, {"columns": [" a"]}, "blanks around"),
        (CsvDecode, {"columns": []}, "names none"),
        (CsvDecode, {"columns": "header", "encoding": "utf8"}, "utf-8"),
        (JsonDecode, {"decimal": ","}, "Extra inputs"),
        (PatternDecode, {"pattern": ""}, "at least 1 character"),
        (PatternDecode, {}, "exactly one of pattern and preset"),
        (PatternDecode, {"pattern": "{m:number}", "preset": "mt-sics"}, "exactly one of pattern and preset"),
        (PatternDecode, {"preset": "mt-sics", "refuse": {"overload": ["OL"]}}, "has its own refuse"),
        (PatternDecode, {"pattern": "{m:number}", "refuse": {"heavy": ["OL"]}}, "'unstable', 'overload'"),
        (PatternDecode, {"preset": "mettler"}, "'mt-sics'"),
    ],
)
def test_refusals(model: Any, keys: dict[str, Any], says: str) -> None:
    formats = {CsvDecode: "csv", JsonDecode: "json", PatternDecode: "pattern"}
    with pytest.raises(ValidationError) as caught:
        model.model_validate(keys | ({"format": formats[model]} if model in formats else {}))
    assert says in str(caught.value)


def test_patterns_of_time_that_keep_the_date_pass() -> None:
    for pattern in ("%d.%m.%Y %H:%M:%S", "%y%m%d%H%M", "%m/%d/%Y %I:%M:%S %p", "%Y-%m-%d", "%Y-%jT%H:%M:%S.%f%z"):
        assert TimeField(field="t", format=pattern).format == pattern


def test_a_binding_cannot_be_changed() -> None:
    binding = ChannelBinding(field="t")
    with pytest.raises(ValidationError):
        binding.field = "u"  # type: ignore[misc]


LAST = {"when_absent": "last", "max_age_s": 5}


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"when_absent": "last"}, "belong together"),
        ({"max_age_s": 5}, "belong together"),
        (LAST | {"max_age_s": 0}, "greater than 0"),
        (LAST | {"read": "list"}, "a single value"),
        (LAST | {"unit": "g", "unit_field": "u"}, "names no unit"),
        ({"topic": "a/#"}, "'#'"),
        ({"topic": "$share/a/b"}, "shared"),
    ],
)
def test_a_value_is_held_for_a_time_or_not_at_all(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        ChannelBinding.model_validate({"field": "v"} | keys)
