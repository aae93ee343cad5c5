"""Whatever contract validates becomes a plan or one sentence, and whatever comes in is answered or refused by name."""

import copy
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from edge_runtime.errors import BundleError
from edge_runtime.flow.encode import make_encoder
from edge_runtime.flow.line import Line
from edge_runtime.flow.preprocess import make_preprocess
from edge_runtime.spec.manifest import Manifest, encode, parse
from edge_runtime.spec.result import RESTARTED
from edge_runtime.spec.sink import StandardOutput
from tests.rig import contracts, kinds

FEW = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
RUNNING = st.one_of(contracts.sound_manifests(), contracts.sound_manifests(), contracts.manifests())


def line_of(manifest: Manifest, sizes: tuple[int, ...] | None = None) -> Line | str:
    """The line, or the one sentence that says why there can be none."""
    try:
        return kinds.line(manifest, contracts.infer_of(manifest), sizes)
    except ValueError as refused:
        return str(refused)


@FEW
@given(contracts.manifests())
def test_a_contract_builds_a_plan_or_is_refused_in_one_sentence(manifest):
    try:
        make_preprocess(manifest)
    except ValueError as refused:
        text = str(refused)
        assert text.startswith(("input x", "step"))
        assert "\n" not in text
        assert len(text) < 300


@FEW
@given(contracts.manifests())
def test_a_manifest_that_loads_dumps_to_the_same_bytes(manifest):
    data = encode(manifest)
    again = parse(data)
    assert again == manifest
    assert encode(again) == data
    assert encode(parse(json.dumps(json.loads(data)).encode())) == data


@FEW
@given(contracts.manifests(), st.data())
def test_a_manifest_with_one_value_put_wrong_loads_or_is_refused_in_one_line(manifest, data):
    raw = json.loads(encode(manifest))
    node = changed = copy.deepcopy(raw)
    for _ in range(data.draw(st.integers(0, 6))):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys)) if keys else None
        if key is None or not isinstance(node[key], dict | list) or not node[key]:
            break
        node = node[key]
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    wrong = (
        st.none()
        | st.booleans()
        | st.integers(-2, 9)
        | st.sampled_from(["", "x", 1e300, [], {}, [[]], 2**70, "float32"])
    )
    if keys:
        node[data.draw(st.sampled_from(keys))] = data.draw(wrong)
    found = parsed(json.dumps(changed).encode())
    if isinstance(found, str):
        assert "\n" not in found
    else:
        assert encode(parse(encode(found))) == encode(found)


def parsed(data: bytes) -> Manifest | str:
    """The manifest, or why it is none."""
    try:
        return parse(data)
    except BundleError as refused:
        return str(refused)


def feed(line: Line, readings, runs):
    """Offer all, run where told; by stream what came of it, without the mark of a restart."""
    for at, reading in enumerate(readings):
        line.offer(reading, 0)
        if runs >> at & 1:
            line.run()
    line.run()
    found = {}
    for one in line.take_answers():
        found.setdefault(one.stream, []).append(one._replace(flags=one.flags & ~RESTARTED))
    return found


@FEW
@given(RUNNING, st.data())
def test_no_input_makes_a_traceback_and_no_batching_another_answer(manifest, data):
    line = line_of(manifest)
    if isinstance(line, str):
        return
    readings = data.draw(contracts.readings(manifest))
    found = feed(line, readings, data.draw(st.integers(0, 4095)))
    alone = line_of(manifest, (1,))
    assert feed(alone, readings, 4095) == found
    assert line.ledger.as_dict() == alone.ledger.as_dict()
    assert line.ledger.adds_up(pending_samples=0, pending_answers=sum(map(len, found.values())))
    assert all("\n" not in str(one.rejection) for one in line.take_refused())
    write = make_encoder(StandardOutput(), "r", manifest.outputs)
    for answers in found.values():
        for one in answers:
            assert not {"NaN", "Infinity"} & set(re.findall(r"\w+", write(one).decode()))


@FEW
@given(RUNNING, st.data())
def test_any_line_goes_on_after_a_restart_at_any_cut(manifest, data):
    straight, line = line_of(manifest), line_of(manifest)
    if isinstance(line, str):
        return
    readings = data.draw(contracts.readings(manifest))
    cuts = data.draw(st.integers(0, 4095))
    saved, changes, found = None, [], {}
    for at, reading in enumerate(readings):
        line.offer(reading, 0)
        line.run()
        for one in line.take_answers():
            found.setdefault(one.stream, []).append(one._replace(flags=one.flags & ~RESTARTED))
        changes.append(from_json(to_json(line.take_changes(), inf_nan_mode="null")))
        if cuts >> at & 1:
            if at % 2:
                saved, changes = from_json(to_json(line.saved(), inf_nan_mode="null")), []
            line = line_of(manifest)
            line.restore(saved, changes)
    assert found == feed(straight, readings, 4095)
    assert line.ledger.as_dict() == straight.ledger.as_dict()


def test_the_strategies_draw_what_fits_and_what_does_not():
    """So that the tests above are about something."""
    built = {True: 0, False: 0}

    @settings(deadline=None, max_examples=200, database=None, suppress_health_check=list(HealthCheck))
    @given(contracts.manifests())
    def count(manifest):
        built[isinstance(line_of(manifest), Line)] += 1

    count()
    assert built[True] > 40
    assert built[False] > 10


def test_what_does_not_validate_is_no_contract():
    with pytest.raises(ValidationError, match="two channels share the name a"):
        kinds.manifest([kinds.taking(kinds.number(), kinds.number())])
