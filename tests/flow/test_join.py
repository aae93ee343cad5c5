"""What is held between messages, by whose time it ages, and what each message makes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.flow.contract import Contract
from edge_runtime.flow.join import Join, Joined
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.payload import JsonDecode, SenmlDecode
from edge_runtime.spec.reading import ABSENT, Reading, Rejection
from tests.rig import kinds

S = 10**9
LAST = {"when_absent": "last", "max_age_s": 60}
SENML = {"vocabulary": "senml", "unit_field": "u"}


def join(channels, decode=None, kind=kinds.number, most=9):
    contract = [kinds.channel(kind(name)) for name in channels]
    bound = {name: ChannelBinding.model_validate({"field": name} | one) for name, one in channels.items()}
    return Join(decode or JsonDecode(format="json"), bound, Contract(contract, bound), max_streams=most)


def of(made, frame, second=0, topic=""):
    item = made.decoder(topic).decode(frame)
    return made.complete(item, second * S) if isinstance(item, Reading) else item


def values(joined):
    assert isinstance(joined, Joined), joined
    return joined.reading.values, joined.held


BOTH = {"a": {"unit": "Cel"}, "b": {"unit": "Cel"} | LAST}


def test_only_a_channel_that_is_not_held_makes_a_sample():
    made = join(BOTH)
    assert of(made, b'{"b": 2}') is None
    assert values(of(made, b'{"a": 1}')) == ((1.0, 2.0), (1,))
    assert values(of(made, b'{"a": 1, "b": 3}')) == ((1.0, 3.0), ())
    assert of(made, b'{"c": 1}').reason == "missing_field"


def test_where_all_are_held_each_message_makes_one():
    made = join(dict.fromkeys("ab", BOTH["b"]))
    assert of(made, b'{"b": 2}').reason == "missing"
    assert values(of(made, b'{"a": 1}')) == ((1.0, 2.0), (1,))
    assert values(of(made, b'{"b": 3}')) == ((1.0, 3.0), (0,))


def test_the_age_is_the_difference_of_the_samples_times():
    made = join(BOTH)
    of(made, b'{"b": 2}', 100)
    assert values(of(made, b'{"a": 1}', 160))[1] == (1,)
    assert values(of(made, b'{"a": 1}', 40))[1] == (1,)
    for second in (161, 39):
        stale = of(made, b'{"a": 1}', second)
        assert (stale.reason, stale.subject) == ("stale", "channel b")
        assert "60 s at most" in str(stale)


def test_a_late_message_tells_nothing_new_and_a_clock_far_ahead_holds_nobody_up():
    made = join(BOTH)
    of(made, b'{"b": 2}', 100)
    of(made, b'{"b": 9}', 90)
    assert values(of(made, b'{"a": 1}', 101))[0] == (1.0, 2.0)
    of(made, b'{"b": 3}', 10**6)
    of(made, b'{"b": 4}', 110)
    assert values(of(made, b'{"a": 1}', 111))[0] == (1.0, 4.0)


def test_null_is_a_value_of_its_own():
    made = join(BOTH)
    of(made, b'{"b": 2}')
    assert of(made, b'{"b": null}') is None
    assert values(of(made, b'{"a": 1}')) == ((1.0, None), (1,))
    assert values(of(made, b'{"a": null, "b": 1}')) == ((None, 1.0), ())


def test_a_unit_is_held_with_its_value():
    made = join({"a": {"unit": "Cel"}, "b": {"unit_field": "u"} | LAST})
    of(made, b'{"b": 300, "u": "K"}')
    taken = of(made, b'{"a": 1}')
    assert taken.reading.units == (None, "K")
    assert of(made, b'{"b": 300}').reason == "undeclared_unit"
    assert of(made, b'{"b": 3000, "u": "K"}').reason == "beyond_physical"
    assert values(of(made, b'{"a": 1}'))[0] == (1.0, 300.0)


def test_the_unit_of_no_value_is_not_kept():
    made = join({"a": {"unit": "Cel"}, "b": {"unit_field": "u"} | LAST})
    assert of(made, b'{"b": null, "u": "' + b"x" * 4000 + b'"}') is None
    assert made.saved() == {"": [None, [None, None, 0]]}


def test_records_that_a_pack_leaves_out():
    made = join({"a": SENML, "b": SENML | LAST}, SenmlDecode(format="senml+json"))
    assert of(made, b'[{"n": "b", "u": "Cel", "v": 2}]') is None
    assert values(of(made, b'[{"n": "a", "u": "Cel", "v": 1}]')) == ((1.0, 2.0), (1,))


def test_a_long_word_stays_unknown_and_costs_little():
    made = join(
        {"a": {"read": "text"}, "b": {"read": "text"} | LAST}, kind=lambda name: kinds.category(name, unknown=0)
    )
    of(made, b'{"b": "' + b"x" * 4000 + b'"}')
    assert len(values(of(made, b'{"a": "red"}'))[0][1]) == 201


def test_topics_that_overlap_bring_their_channels_together():
    made = join({"a": BOTH["a"] | {"topic": "+/x"}, "b": BOTH["b"] | {"topic": "h/+"}})
    assert values(of(made, b'{"a": 1, "b": 2}', topic="h/x")) == ((1.0, 2.0), ())
    assert values(of(made, b'{"a": 1, "b": 9}', topic="i/x")) == ((1.0, 2.0), (1,))
    assert of(made, b'{"a": 9, "b": 9}', topic="h/y") is None
    assert of(made, b"{}", topic="i/y").reason == "other_topic"
    assert "no topic" in str(of(made, b"{}"))
    assert made.expected("h/x") == ["a"]


def test_ever_new_topics_cost_a_bounded_memory():
    made = join({"a": BOTH["a"] | {"topic": "+/x"}})
    for number in range(3000):
        made.decoder(f"{number}/x")
    assert len(made._by_topic) <= 1024
    assert len(made._decoders) == 1


def test_what_a_topics_own_message_lacks_is_explained():
    made = join({"a": BOTH["a"] | {"topic": "a"}, "b": BOTH["b"] | {"topic": "b"}})
    refused = Rejection("missing", "channel a", "no value", "a number", "x")
    assert "no field 'a'" in made.decoder("a").explain_missing(b'{"aa": 1}', refused).found
    other = made.decoder("a").explain_missing(b'{"aa": 1}', refused._replace(subject="channel b"))
    assert other.found == "no value"


messages = st.lists(
    st.tuples(st.sampled_from("xy"), st.dictionaries(st.sampled_from("ab"), st.integers(-50, 50))), max_size=20
)


@given(messages, st.integers(0, 20))
def test_a_restart_anywhere_changes_nothing(told, cut):
    def play(before, after):
        whole = join(BOTH)
        first = [whole.complete(read(one), at * S) for at, one in enumerate(before)]
        record = whole.take_changes()
        again = join(BOTH)
        again.restore(record)
        return first + [again.complete(read(one), (len(before) + at) * S) for at, one in enumerate(after)]

    def read(one):
        stream, fields = one
        return Reading(tuple(fields.get(name, ABSENT) for name in "ab"), stream=stream)

    assert play(told[:cut], told[cut:]) == play(told, [])


def test_the_journal_gets_the_streams_that_changed():
    made = join(BOTH)
    of(made, b'{"b": 2}')
    assert made.take_changes() == {"": [None, [2.0, None, 0]]}
    assert made.take_changes() == {}
    assert made.saved() == {"": [None, [2.0, None, 0]]}


@pytest.mark.parametrize("count", [1, 2])
def test_streams_are_bounded(count):
    made = join(BOTH, most=count)
    for number in range(count):
        assert made.complete(Reading((ABSENT, 1.0), stream=str(number)), 0) is None
    assert made.complete(Reading((ABSENT, 1.0), stream="more"), 0).reason == "too_many_streams"
