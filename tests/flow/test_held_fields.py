"""Last values: their age, their order, and how many streams they are kept of."""

from edge_runtime.flow.held_fields import HeldFields


def test_a_value_counts_until_it_is_too_old() -> None:
    held = HeldFields()
    held.put("a", "t", 100, 20.0)
    assert held.at("a", "t", 100, 50) == held.at("a", "t", 150, 50) == 20.0
    assert held.at("a", "t", 151, 50) is None
    assert held.at("b", "t", 100, 50) is held.at("a", "h", 100, 50) is None


def test_a_value_of_later_is_none_of_earlier() -> None:
    held = HeldFields()
    held.put("a", "t", 100, 20.0)
    held.put("a", "t", 90, 19.0)
    assert held.at("a", "t", 100, 50) == 20.0
    assert held.at("a", "t", 95, 50) is None


def test_what_is_forgotten_is_gone() -> None:
    held = HeldFields()
    for stream in "ab":
        for field in "th":
            held.put(stream, field, 1, 1.0)
    held.forget("a", "t")
    held.forget("b")
    held.forget("c")
    held.forget("c", "t")
    assert held.at("a", "t", 1, 9) is held.at("b", "h", 1, 9) is None
    assert held.at("a", "h", 1, 9) == 1.0


def test_the_stream_that_was_silent_the_longest_makes_room() -> None:
    held = HeldFields(most=2)
    for stream in ("a", "b", "a", "c"):
        held.put(stream, "t", 1, stream)
    assert [held.at(stream, "t", 1, 9) for stream in "abc"] == ["a", None, "c"]
