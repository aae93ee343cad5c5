import pytest
from pydantic import TypeAdapter, ValidationError

from edge_runtime.spec.sink import JsonLinesFile, Sink, StandardOutput

SINK = TypeAdapter(Sink)


def test_the_kind_says_which():
    assert SINK.validate_python({"kind": "stdout"}) == StandardOutput()
    file = SINK.validate_python({"kind": "jsonl", "path": "answers.jsonl", "sync": "each", "map": {"t": "/low/value"}})
    assert file == JsonLinesFile(path="answers.jsonl", sync="each", map={"t": "/low/value"})


@pytest.mark.parametrize(
    ("raw", "where"),
    [
        ({"kind": "csv"}, ()),
        ({"path": "a"}, ()),
        ({"kind": "stdout", "path": "a"}, ("stdout", "path")),
        ({"kind": "jsonl"}, ("jsonl", "path")),
        ({"kind": "jsonl", "path": ""}, ("jsonl", "path")),
        ({"kind": "jsonl", "path": "a", "sync": "often"}, ("jsonl", "sync")),
        ({"kind": "stdout", "map": {}}, ("stdout", "map")),
        ({"kind": "stdout", "map": {"t": "low/value"}}, ("stdout", "map", "t")),
        ({"kind": "stdout", "map": {"": "/low/value"}}, ("stdout", "map", "", "[key]")),
        ({"kind": "stdout", "name": ""}, ("stdout", "name")),
    ],
)
def test_what_is_wrong_is_refused_at_its_place(raw, where):
    with pytest.raises(ValidationError) as refused:
        SINK.validate_python(raw)
    assert refused.value.errors()[0]["loc"] == where


def test_a_sink_is_frozen():
    with pytest.raises(ValidationError):
        StandardOutput().name = "x"
