import json

from hypothesis import given, settings
from hypothesis import strategies as st

from edge_runtime.run.outbox import Entry, Outbox


class Taking:
    """A sink that takes as many as it is told to, and knows what it has."""

    name = "taking"

    def __init__(self):
        self.room, self.have, self.withdrawn = 0, [], set()

    def withdraw(self, identities):
        self.withdrawn |= identities

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


def restored(records, sinks):
    box = Outbox(sinks)
    return box, box.restore(json.loads(json.dumps(records)), records[-1]["sinks"])


def record(box, sinks):
    return box.take_changes() | {"sinks": [sink.position() for sink in sinks]}


def test_after_a_restart_no_sink_gets_again_what_it_had_taken_before_the_last_record():
    """What a faster sink took stands before its recorded position, where nobody looks for it."""
    one, two = Taking(), Taking()
    box = Outbox([one, two])
    box.add(entry(0, 2))
    records = [record(box, [one, two])]
    one.room = 9
    box.deliver()
    box.add(entry(1, 2))
    records.append(record(box, [one, two]))
    box.deliver()
    after, orphans = restored(records, [one, two])
    one.room = two.room = 9
    assert (after.deliver(), orphans) == (2, 0)
    assert one.have == two.have == ["id0", "id1"]


def test_what_had_gone_before_its_first_record_is_not_written_and_not_sent_again():
    sink = Taking()
    sink.room = 9
    box = Outbox([sink])
    for number in range(5):
        box.add(entry(number))
        box.deliver()
    sink.room = 0
    box.add(entry(5))
    records = [record(box, [sink])]
    assert [one[0] for one in records[0]["out"]] == ["id5"]
    after, _ = restored(records, [sink])
    sink.room = 9
    assert after.deliver() == 1
    assert sink.have == [f"id{number}" for number in range(6)]


def named(name):
    sink = Taking()
    sink.name = name
    return sink


def test_sinks_may_change_places_between_two_runs():
    one, two = named("one"), named("two")
    box = Outbox([one, two])
    box.add(Entry("id0", (b"for one\n", b"for two\n")))
    after, orphans = restored([record(box, [one, two])], [two, one])
    one.room = two.room = 9
    assert (after.deliver(), orphans) == (1, 0)
    assert one.have == two.have == ["id0"]
    assert after.bytes == 0


def test_a_new_sink_is_owed_only_what_is_made_after_it_came():
    one, two = named("one"), named("two")
    box = Outbox([one])
    box.add(entry(0))
    after, orphans = restored([record(box, [one])], [two, one])
    after.add(entry(1, 2))
    one.room = two.room = 9
    assert (after.deliver(), orphans) == (2, 0)
    assert (one.have, two.have) == (["id0", "id1"], ["id1"])


def test_what_waited_for_a_sink_that_is_no_more_has_to_go_and_is_counted():
    one, two = named("one"), named("two")
    box = Outbox([one])
    box.add(entry(0))
    after, orphans = restored([record(box, [one])], [two])
    assert (orphans, len(after), after.bytes) == (1, 0, 0)


def test_answers_that_are_withdrawn_are_those_not_every_sink_has():
    one, two = Taking(), Taking()
    box = Outbox([one, two])
    for number in range(6):
        box.add(entry(number, 2))
    one.room, two.room = 3, 2
    box.deliver()
    assert box.take_changes()["out"][-1][0] == "id5"
    # From the first on that is not proven; what one sink has and the other not goes to neither any more.
    assert [gone.id for gone in box.withdraw(1)] == ["id2", "id3", "id4", "id5"]
    assert one.withdrawn == two.withdrawn == {"id2", "id3", "id4", "id5"}
    assert (len(box), box.added, box.bytes) == (0, 2, 0)
    box.add(entry(9, 2))
    assert [name for name, _ in box.take_changes()["out"]] == ["id9"]
    one.room = two.room = 9
    assert box.deliver() == 1
    assert (one.have, two.have) == (["id0", "id1", "id2", "id9"], ["id0", "id1", "id9"])


def test_answers_that_are_proven_still_go_to_the_sink_that_lacks_them():
    one, two = Taking(), Taking()
    box = Outbox([one, two])
    for number in range(4):
        box.add(entry(number, 2))
    one.room = 3
    box.deliver()
    assert [gone.id for gone in box.withdraw(2)] == ["id2", "id3"]
    two.room = 9
    assert box.deliver() == 2
    assert (one.have, two.have) == (["id0", "id1", "id2"], ["id0", "id1"])


def test_what_is_withdrawn_before_it_was_kept_is_in_no_journal():
    box = Outbox([Taking()])
    box.add(entry(0))
    assert box.withdraw(0) != []
    assert box.take_changes()["out"] == []
    assert box.withdraw(0) == []
    box.add(entry(1))
    changes = box.take_changes()
    assert ([name for name, _ in changes["out"]], changes["first"]) == (["id1"], 0)
