"""Topics as words: what matches what (MQTT 5, 4.7), and which are refused."""

import pytest
from pydantic import TypeAdapter, ValidationError

from edge_runtime.spec.topic import TopicFilter, TopicName, filled, matches


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a/b/c", False),
        ("a/b/c", "a/b", False),
        ("a/+", "a/b", True),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("+/+", "/a", True),
        ("+", "/a", False),
        ("a/#", "a/b/c", True),
        ("a/#", "a", True),
        ("a/#", "ab", False),
        ("#", "a/b", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("a/+/c", "a//c", True),
        ("A", "a", False),
    ],
)
def test_matches(pattern, topic, expected):
    assert matches(pattern, topic) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a/#/b", "'#' stands alone"),
        ("a#", "'#' stands alone"),
        ("a/b+", "'\\+' stands for a whole level"),
        ("$share/g/a", "shared subscription"),
        ("a/{site}", r"\{site\} is none"),
        ("a\0", "control characters"),
        ("a\x85b", "control characters"),
        ("a\ufffe", "control characters"),
        ("x" * 65_536, "at most 65535 bytes"),
        ("", "at least 1"),
    ],
)
def test_a_filter_that_is_none(text, words):
    with pytest.raises(ValidationError, match=words):
        TypeAdapter(TopicFilter).validate_python(text)


@pytest.mark.parametrize("text", ["a/+", "a/#", "$SYS/a", ""])
def test_a_name_that_is_none(text):
    with pytest.raises(ValidationError):
        TypeAdapter(TopicName).validate_python(text)


def test_variables():
    assert TypeAdapter(TopicName).validate_python("edge/{device}/{line}") == "edge/{device}/{line}"
    assert filled("edge/{device}/{line}/{device}", device="d", line="l") == "edge/d/l/d"
