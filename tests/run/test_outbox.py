import json

from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.run.outbox import Entry, Outbox


class Taking:
    """A sink that takes as many as it is told to, and knows what it has."""

    name = "taking"

    def __init__(self):
        self.room, self.have = 0, []

    def deliver(self, answers):
        taken = answers[: self.room]
        self.room -= len(taken)
        self.have += [one for one, _ in taken]
        return len(taken)

    def position(self):
        return len(self.have)

    def recover(self, position, pending):
        return set(self.have[position or 0 :]) & set(pending)

    def status(self):
        return "It takes."

    def close(self):
        pass


def entry(number, sinks=1):
    return Entry(f"id{number}", tuple(b"line %d\n" % number for _ in range(sinks)))


def test_an_answer_is_gone_only_once_every_sink_took_it():
    one, two = Taking(), Taking()
    box = Outbox([one, two])
    for number in range(3):
        box.add(entry(number, 2))
    one.room, two.room = 3, 1
    assert box.deliver() == 1
    assert len(box) == 2
    assert box.deliver() == 0
    two.room = 9
    assert box.deliver() == 2
    assert one.have == two.have == ["id0", "id1", "id2"]
    assert box.bytes == 0
    assert not box.is_blocked


def test_the_oldest_go_when_there_is_no_room_and_are_counted():
    sink = Taking()
    box = Outbox([sink])
    for number in range(10):
        box.add(entry(number))
    assert box.drop_oldest(3 * len(b"line 0\n")) == 7
    sink.room = 9
    box.deliver()
    assert sink.have == ["id7", "id8", "id9"]


def test_dropping_what_one_sink_already_took_keeps_the_other_in_order():
    one, two = Taking(), Taking()
    box = Outbox([one, two])
    for number in range(4):
        box.add(entry(number, 2))
    one.room = 2
    box.deliver()
    box.drop_oldest(2 * len(b"line 0\n"))
    one.room = two.room = 9
    box.deliver()
    assert one.have == ["id0", "id1", "id3"]
    assert two.have == ["id3"]


@settings(deadline=None)
@given(st.lists(st.one_of(st.just("add"), st.just("keep"), st.just("snapshot"), st.integers(0, 3)), max_size=40))
def test_after_a_restart_at_any_record_every_answer_is_there_once(steps):
    """A record is made before its answers leave; what left after the last record is found in the sink."""
    sink = Taking()
    box = Outbox([sink])
    records, added, kept = [box.saved() | {"sinks": [0]}], 0, 0
    for step in steps:
        if step == "add":
            box.add(entry(added))
            added += 1
        elif step == "keep":
            records.append(json.loads(json.dumps(box.take_changes() | {"sinks": [sink.position()]})))
            kept = added
        elif step == "snapshot":
            records = [json.loads(json.dumps(box.saved() | {"sinks": [sink.position()]}))]
            kept = added
        elif added == kept:
            sink.room = step
            box.deliver()
    after = Outbox([sink])
    after.restore(records, records[-1]["sinks"])
    sink.room = 100
    after.deliver()
    assert sink.have == [f"id{number}" for number in range(kept)]
