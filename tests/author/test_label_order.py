"""Labels that stand in one another's place, told from honest mistakes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.author.label_order import Exchange, exchanged

WORDS = np.array(["calm", "gust", "rain", "snow"])


def _true(cases: int = 200) -> np.ndarray:
    return WORDS[np.random.default_rng(5).integers(0, 4, cases)]


def _named(true: np.ndarray, names: list[str]) -> np.ndarray:
    """A model that is always right and whose classes are called by other names."""
    table = dict(zip(WORDS.tolist(), names, strict=True))
    return np.array([table[word] for word in true.tolist()])


def test_what_is_right_is_no_exchange_and_nothing_at_all_neither() -> None:
    true = _true()
    assert exchanged(true, true) == ()
    assert exchanged(true[:0], true[:0]) == ()


def test_two_of_four_are_named_and_the_others_are_not() -> None:
    true = _true()
    (found,) = exchanged(_named(true, ["calm", "rain", "gust", "snow"]), true)
    moved = int(np.isin(true, ["gust", "rain"]).sum())
    assert found == Exchange(("gust", "rain"), 0, moved)


def test_a_rotation_is_one_ring_in_the_direction_of_the_truth() -> None:
    true = _true()
    (found,) = exchanged(_named(true, ["gust", "rain", "snow", "calm"]), true)
    assert (found.right, found.would_be) == (0, 200)
    # Where it answers gust, calm is true.
    assert found.words == ("calm", "snow", "rain", "gust")


def test_two_swaps_are_two_rings() -> None:
    true = _true()
    found = exchanged(_named(true, ["gust", "calm", "snow", "rain"]), true)
    assert [one.words for one in found] == [("calm", "gust"), ("rain", "snow")]


def test_a_swap_shows_through_mistakes_and_mistakes_alone_are_none() -> None:
    true = _true(400)
    random = np.random.default_rng(9)
    wrong = random.random(400) < 0.4
    noisy = np.where(wrong, WORDS[random.integers(0, 4, 400)], true)
    assert exchanged(noisy, true) == ()
    (found,) = exchanged(np.where(wrong, noisy, _named(true, ["calm", "rain", "gust", "snow"])), true)
    assert found.words == ("gust", "rain")


def test_a_word_that_is_seldom_seen_proves_nothing() -> None:
    true = np.array(["calm"] * 90 + ["gust"] * 2 + ["rain"] * 3)
    assert exchanged(np.array(["calm"] * 90 + ["rain"] * 2 + ["gust"] * 3), true) == ()
    assert len(exchanged(np.array(["calm"] * 90 + ["rain"] * 2 + ["gust"] * 3).repeat(2), true.repeat(2))) == 1


def test_only_so_many_words_are_looked_at() -> None:
    true = np.arange(3000).astype(str)
    assert 900 < sum(len(one.words) for one in exchanged(np.roll(true, 1), true)) <= 1000


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("abcdef")), max_size=60))
def test_whatever_is_answered_a_ring_is_of_words_that_each_stand_once(pairs: list[tuple[str, str]]) -> None:
    said, true = (np.array([pair[at] for pair in pairs], str) for at in (0, 1))
    found = exchanged(said, true)
    words = [word for one in found for word in one.words]
    assert len(words) == len(set(words))
    assert all(one.would_be > one.right for one in found)
