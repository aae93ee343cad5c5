"""Files laid over each other: what wins, and which file is said to have said it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from edge_runtime.spec.drop_in import merged, origin

BASE: dict[str, Any] = {
    "profile": "a", "broker": {"host": "h", "tls": {"ca": "c"}},
    "line": [{"name": "x", "source": {"topics": ["1", "2"]}}, {"name": "y"}],
}  # fmt: skip


def test_tables_are_merged_and_the_last_word_wins() -> None:
    over = {"profile": "b", "broker": {"tls": {"key": "k"}, "port": 1}}
    whole, origins = merged([("base", BASE), ("over", over)])
    assert whole["profile"] == "b"
    assert whole["broker"] == {"host": "h", "tls": {"ca": "c", "key": "k"}, "port": 1}
    said = {path: origin(origins, path) for path in [("profile",), ("broker", "host"), ("broker", "tls", "key")]}
    assert list(said.values()) == ["over", "base", "over"]
    assert origin(origins, ("broker", "tls", "ca", "deeper")) == "base"


def test_lines_are_known_by_their_name() -> None:
    over = {"line": [{"name": "z"}, {"name": "x", "bundle": "b", "source": {"topics": ["3"]}}]}
    whole, origins = merged([("base", BASE), ("over", over)])
    assert [one["name"] for one in whole["line"]] == ["x", "y", "z"]
    assert whole["line"][0] == {"name": "x", "source": {"topics": ["3"]}, "bundle": "b"}
    assert [origin(origins, ("line", at)) for at in range(3)] == ["base", "base", "over"]
    assert origin(origins, ("line", 0, "source", "topics", 0)) == "over"


def test_two_of_one_name_in_one_file_stay_a_mistake() -> None:
    whole, _ = merged([("base", {"line": [{"name": "x"}, {"name": "x"}]})])
    assert len(whole["line"]) == 2


def test_what_is_replaced_is_forgotten() -> None:
    files: list[tuple[str, dict[str, Any]]] = [("1", {"a": {"b": {"c": 1}}}), ("2", {"a": 5}), ("3", {"a": {"d": 2}})]
    whole, origins = merged(files)
    assert whole == {"a": {"d": 2}}
    assert origin(origins, ("a", "b", "c")) == "3"


def test_what_is_no_table_of_lines_is_left_to_the_model() -> None:
    assert merged([("1", {"line": [1]})])[0] == {"line": [1]}
    assert merged([("1", {"line": {"name": "x"}})])[0] == {"line": {"name": "x"}}
    assert merged([("1", {"line": 5}), ("2", BASE)])[0]["line"] == BASE["line"]
    assert merged([("1", BASE), ("2", {"line": [{"source": {}}]})])[0]["line"][2:] == [{"source": {}}]


tables: Any = st.recursive(
    st.integers() | st.lists(st.integers()), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8
)
files = st.lists(st.dictionaries(st.sampled_from("abc"), tables), min_size=1, max_size=4)


@given(files)
def test_every_value_is_the_last_files_that_wrote_it(raws: list[dict[str, Any]]) -> None:
    named = [(str(number), raw) for number, raw in enumerate(raws)]
    whole, origins = merged(named)

    def look(value: Any, path: tuple[str, ...]) -> None:
        if isinstance(value, dict) and value:
            for key, one in value.items():
                look(one, (*path, key))
        elif not isinstance(value, dict):
            at: Any = raws[int(origin(origins, path) or "-1")]
            for key in path:
                at = at[key]
            assert at == value

    look(whole, ())
    assert merged([("a", whole)])[0] == whole
