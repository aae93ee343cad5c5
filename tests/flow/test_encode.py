import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.encode import ALWAYS, SOMETIMES, make_encoder
from edge_runtime.spec.manifest import ANSWER_KEYS
from edge_runtime.spec.outputs import Output, Threshold
from edge_runtime.spec.result import FLAG_NAMES, Answer, OutputValue
from edge_runtime.spec.sink import JsonLinesFile, StandardOutput
from tests.rig.bundles import ROOT

FROST = Threshold(name="frost", side="below", on=0.0, off=0.5)
LOW = Output(tensor="y", name="low", meaning="lowest temperature of the night", unit="Cel", flags=(FROST,))
ANSWER = Answer(
    stream="frost",
    seq=0,
    time_ns=1_738_105_200_000_000_000,
    id="5f1c",
    outputs=(OutputValue("low", -1.234, "Cel", (("frost", True),)),),
    flags=1,
)
FULL = ANSWER._replace(flags=16 | 64, stuck=("p",), age_ns=12_345_678, carry=(("operator", 'J. "Ü" \n'), ("n", 7)))


def test_the_default_shape():
    encode = make_encoder(StandardOutput(), "r1", [LOW])
    assert encode(ANSWER) == (
        b'{"time":"2025-01-28T23:00:00Z","stream":"frost","seq":0,"id":"5f1c",'
        b'"low":{"value":-1.234,"unit":"Cel","frost":true},"flags":["converted"],"run":"r1"}\n'
    )


def test_the_default_shape_with_everything_it_may_have():
    assert json.loads(make_encoder(StandardOutput(), "r1", [LOW])(FULL)) == {
        "time": "2025-01-28T23:00:00Z",
        "stream": "frost",
        "seq": 0,
        "id": "5f1c",
        "low": {"value": -1.234, "unit": "Cel", "frost": True},
        "flags": ["stuck", "restarted"],
        "stuck": ["p"],
        "age_s": 0.012345678,
        "carry": {"operator": 'J. "Ü" \n', "n": 7},
        "run": "r1",
    }


def test_a_map_gives_its_fields_in_its_order_and_null_for_what_an_answer_lacks():
    fields = {
        "frost": "/low/frost",
        "temperature": "/low/value",
        "who": "/carry/operator",
        "age": "/age_s",
        "at": "/time",
    }
    encode = make_encoder(JsonLinesFile(path="a", map=fields), "r1", [LOW], ["operator"])
    assert encode(ANSWER) == (
        b'{"frost":true,"temperature":-1.234,"who":null,"age":null,"at":"2025-01-28T23:00:00Z"}\n'
    )
    assert json.loads(encode(FULL))["who"] == 'J. "Ü" \n'
    assert json.loads(encode(FULL))["age"] == 0.012345678


def test_pointers_escape_what_stands_in_a_carried_name():
    encode = make_encoder(StandardOutput(map={"x": "/carry/a~1b~0c"}), "r1", [LOW], ["a/b~c"])
    assert encode(ANSWER._replace(carry=(("a/b~c", 3),))) == b'{"x":3}\n'


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("/low/valeu", "expected '/low/value'"),
        ("/carry/oprator", "expected '/carry/operator'"),
        ("/low/value/", "expected '/low/value'"),
        ("/flags/0", "expected '/flags'"),
        ("/zzz", "expected '/time' or '/stream' or '/seq' or '/id' or '/flags' or '/run' or '/stuck' or '/age_s'"),
    ],
)
def test_a_pointer_that_can_never_match_is_refused_naming_the_near_ones(pointer, expected):
    with pytest.raises(ConfigurationError) as refused:
        make_encoder(StandardOutput(map={"t": pointer}), "r1", [LOW], ["operator"])
    text = str(refused.value)
    assert text.startswith(f"sink.map, t: found {pointer!r}; {expected}")
    assert "\n" not in text


def test_the_keys_of_the_shape_are_those_the_manifest_keeps_free():
    assert {*ALWAYS, *SOMETIMES} == ANSWER_KEYS


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_never_written(value):
    encode = make_encoder(StandardOutput(), "r1", [LOW])
    with pytest.raises(ValueError, match="which no line may publish"):
        encode(ANSWER._replace(outputs=(OutputValue("low", value, "Cel"),)))


def test_a_carried_nan_is_null():
    line = make_encoder(StandardOutput(), "r1", [LOW])(ANSWER._replace(carry=(("n", math.nan), ("m", math.inf))))
    assert b'"carry":{"n":null,"m":null}' in line


LABELLED = Output(tensor="y", name="kind", meaning="what it is", form="label", labels=("cat", "dög"))
ROW = Output(tensor="z", name="all", meaning="all of them", form="vector", unit="K")


def test_labels_scores_and_vectors_have_their_place():
    outputs = (OutputValue("kind", "dög", "1", (), 0.75), OutputValue("all", (1.0, -0.5), "K"))
    row = json.loads(make_encoder(StandardOutput(), "r", [LABELLED, ROW])(ANSWER._replace(outputs=outputs)))
    assert row["kind"] == {"value": "dög", "unit": "1", "score": 0.75}
    assert row["all"] == {"value": [1.0, -0.5], "unit": "K"}
    fields = {"what": "/kind/value", "sure": "/kind/score", "all": "/all/value"}
    encode = make_encoder(StandardOutput(map=fields), "r", [LABELLED, ROW])
    assert encode(ANSWER._replace(outputs=outputs)) == '{"what":"dög","sure":0.75,"all":[1.0,-0.5]}\n'.encode()


def test_a_label_by_its_number_or_text_has_no_score():
    encode = make_encoder(StandardOutput(map={"sure": "/kind/score"}), "r", [LABELLED])
    assert encode(ANSWER._replace(outputs=(OutputValue("kind", "cat", "1"),))) == b'{"sure":null}\n'
    with pytest.raises(ConfigurationError):
        make_encoder(StandardOutput(map={"sure": "/all/score"}), "r", [ROW])


@pytest.mark.parametrize("output", [
    OutputValue("all", (1.0, math.nan), "K"), OutputValue("all", (math.inf,), "K"), OutputValue("kind", "cat", "1", (), math.nan),
])  # fmt: skip
def test_no_part_of_an_answer_may_be_infinite(output):
    with pytest.raises(ValueError, match="which no line may publish"):
        make_encoder(StandardOutput(), "r", [LABELLED, ROW])(ANSWER._replace(outputs=(output,)))


CARRIED = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats() | st.text()
ANSWERS = st.builds(
    Answer,
    stream=st.text(),
    seq=st.integers(0, 2**53),
    time_ns=st.integers(-(2**62), 2**62),
    id=st.text(),
    outputs=st.tuples(
        st.builds(
            OutputValue,
            st.just("low"),
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(),
            st.just(()) | st.tuples(st.tuples(st.just("frost"), st.booleans())),
            score=st.none(),
        )
    ),
    flags=st.integers(0, 2 * max(FLAG_NAMES) - 1),
    stuck=st.lists(st.text(), max_size=3).map(tuple),
    age_ns=st.none() | st.integers(0, 2**62),
    carry=st.dictionaries(st.text(), CARRIED, max_size=3).map(lambda given: tuple(given.items())),
)


@given(ANSWERS)
def test_every_line_is_one_strict_json_object_with_the_same_float(answer):
    line = make_encoder(StandardOutput(), "r", [LOW])(answer)

    def never(word: str) -> None:
        raise AssertionError(word)

    assert line.count(b"\n") == 1
    assert line.endswith(b"}\n")
    row = json.loads(line, parse_constant=never)
    assert math.copysign(1, row["low"]["value"]) == math.copysign(1, answer.outputs[0].value)
    assert row["low"]["value"] == answer.outputs[0].value
    assert [row["id"], row["seq"], row["stream"]] == [answer.id, answer.seq, answer.stream]
    assert tuple(row.get("stuck", ())) == answer.stuck
    assert list(row.get("carry", {})) == [name for name, _ in answer.carry]


def flat_line(answer, encoding="influx", outputs=(LOW,)):
    return make_encoder(StandardOutput(encoding=encoding), "r1", outputs)(answer)


def test_the_line_protocol_and_telemetry():
    assert flat_line(ANSWER) == (
        b'edge_runtime,stream=frost low=-1.234,low_unit="Cel",low_frost=true,flags="converted",seq=0i,id="5f1c",run="r1"'
        b" 1738105200000000000\n"
    )
    assert flat_line(ANSWER, "thingsboard") == (
        b'{"ts":1738105200000,"values":{"low":-1.234,"low_unit":"Cel","low_frost":true,"flags":"converted","seq":0,'
        b'"id":"5f1c","run":"r1","stream":"frost"}}\n'
    )


def test_the_document_shows_these_lines():
    page = (ROOT / "docs/device_toml.md").read_text()
    assert flat_line(ANSWER).decode() in page
    assert flat_line(ANSWER, "thingsboard").decode() in page


def test_a_flat_answer_with_everything_it_may_have():
    values = json.loads(flat_line(FULL, "thingsboard"))["values"]
    assert values["flags"] == "stuck,restarted"
    assert (values["stuck"], values["age_s"], values["carry_n"]) == ("p", 0.012345678, 7)
    assert values["carry_operator"] == 'J. "Ü" \n'
    assert b'carry_operator="J. \\"\xc3\x9c\\"  ",carry_n=7i' in flat_line(FULL)


def test_labels_vectors_and_what_is_not_said():
    outputs = (OutputValue("kind", "a b", "1", (), 0.75), OutputValue("bands", (1.0, 2.5), "Cel"))
    answer = ANSWER._replace(outputs=outputs, flags=0, carry=(("x", None), ("y", math.nan), ("z", True)))
    values = json.loads(flat_line(answer, "thingsboard"))["values"]
    assert values == {
        "kind": "a b", "kind_unit": "1", "kind_score": 0.75, "bands_0": 1.0, "bands_1": 2.5, "bands_unit": "Cel",
        "seq": 0, "id": "5f1c", "run": "r1", "carry_z": True, "stream": "frost",
    }  # fmt: skip


@pytest.mark.parametrize("stream", ["a b,c=d", "back\\", "two\nlines", "nul\0"])
def test_names_cannot_break_out_of_the_line(stream):
    line = flat_line(ANSWER._replace(stream=stream, carry=((stream, stream),))).decode()
    assert line.count("\n") == 1
    head, *rest = re.split(r"(?<!\\) ", line, maxsplit=1)
    assert head.startswith("edge_runtime,stream=")
    assert len(re.findall(r"(?<!\\)[,=]", head)) == 2
    assert rest[0].startswith("low=-1.234,")
    assert line.endswith(" 1738105200000000000\n")


def test_what_is_not_finite_is_never_written_flat():
    for value in (math.nan, (1.0, math.inf)):
        with pytest.raises(ValueError, match="not finite"):
            flat_line(ANSWER._replace(outputs=(OutputValue("low", value, "Cel"),)))


def test_two_parts_of_one_flat_name_are_refused_at_boot():
    other = Output(tensor="y", name="low_frost", meaning="another", unit="Cel")
    for encoding in ("influx", "thingsboard"):
        with pytest.raises(ConfigurationError, match="both be called 'low_frost'"):
            flat_line(ANSWER, encoding, (LOW, other))
    assert make_encoder(StandardOutput(), "r1", (LOW, other))
