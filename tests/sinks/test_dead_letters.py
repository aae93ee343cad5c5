import json
from pathlib import Path

from edge_runtime.sinks.dead_letters import ALIKE_A_MINUTE, MOST_KINDS, DeadLetters
from edge_runtime.spec.reading import Rejection

SECOND = 1_000_000_000
NAN = Rejection("not_finite", "t", "NaN", "a finite number", "check the probe")
T0 = 1_738_105_200 * SECOND


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


def letters_in(path: Path, *, max_bytes: int = 1 << 20, clock=None) -> DeadLetters:
    clock = clock or Clock()
    return DeadLetters(path, max_bytes=max_bytes, wall_ns=lambda: T0 + clock.now, mono_ns=clock)


def add(letters: DeadLetters, rejection: Rejection = NAN, raw: bytes = b"a,NaN") -> None:
    letters.add(rejection, time_ns=T0, line="frost", stream="s", raw=raw)


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_letter_says_all_a_person_needs(tmp_path):
    path = tmp_path / "deep" / "dead.jsonl"
    letters = letters_in(path)
    add(letters, raw=b'\xff\x00"\\x' + b"y" * 300)
    assert not path.exists()  # written in batches
    letters.flush()
    assert rows(path) == [
        {
            "time": "2025-01-28T23:00:00Z", "line": "frost", "stream": "s", "reason": "not_finite", "subject": "t",
            "found": "NaN", "expected": "a finite number", "todo": "check the probe",
            "raw": '\\xff\\x00"\\\\x' + "y" * 251,
        }
    ]  # fmt: skip
    assert letters.status().startswith("1 refused samples written, 0 told in sum. The last: ")


def test_alike_ones_beyond_the_rate_are_told_in_one_line(tmp_path):
    clock = Clock()
    path = tmp_path / "dead.jsonl"
    letters = letters_in(path, clock=clock)
    for _ in range(5000):
        add(letters)
    add(letters, NAN._replace(subject="p"))
    clock.now = 59 * SECOND
    add(letters)
    letters.flush()
    assert len(rows(path)) == ALIKE_A_MINUTE + 1
    clock.now = 60 * SECOND
    letters.flush()
    assert letters.summarised == 4901
    assert rows(path)[-1] == {
        "time": "2025-01-28T23:01:00Z", "line": "frost", "stream": "", "reason": "not_finite", "subject": "t",
        "found": "4901 more like the 100 before", "expected": "at most 100 a minute to be written out", "todo": "",
        "raw": "",
    }  # fmt: skip
    add(letters)
    letters.close()
    assert len(rows(path)) == ALIKE_A_MINUTE + 3


def test_closing_tells_what_was_only_counted(tmp_path):
    letters = letters_in(tmp_path / "dead.jsonl")
    for _ in range(102):
        add(letters)
    letters.close()
    letters.close()
    assert rows(tmp_path / "dead.jsonl")[-1]["found"] == "2 more like the 100 before"


def test_ever_new_subjects_do_not_fill_memory(tmp_path):
    letters = letters_in(tmp_path / "dead.jsonl")
    for n in range(MOST_KINDS + 500):
        add(letters, NAN._replace(subject=f"t{n}"))
    assert len(letters._alike) == MOST_KINDS + 1
    assert letters.summarised == 400


def test_two_files_take_the_room_they_were_given_and_the_newest_stay(tmp_path):
    clock = Clock()
    path = tmp_path / "dead.jsonl"
    letters = letters_in(path, max_bytes=20_000, clock=clock)
    for n in range(2000):
        clock.now += SECOND
        add(letters, NAN._replace(found=f"number {n}"))
        if n % 7 == 0:
            letters.flush()
        total = sum(each.stat().st_size for each in tmp_path.iterdir())
        assert total <= 20_000
    letters.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["dead.jsonl", "dead.jsonl.1"]
    found = [row["found"] for row in rows(tmp_path / "dead.jsonl.1") + rows(path)]
    assert found == [f"number {n}" for n in range(2000 - len(found), 2000)]
    assert len(found) > 50


def test_one_large_batch_keeps_to_the_room_as_well(tmp_path):
    letters = letters_in(tmp_path / "dead.jsonl", max_bytes=4000)
    for n in range(90):
        add(letters, NAN._replace(found=f"number {n}"))
    letters.close()
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 4000
    assert letters.written == 90


def test_a_disk_that_takes_nothing_is_counted_and_never_raised(tmp_path):
    (tmp_path / "file").write_text("")
    letters = letters_in(tmp_path / "file" / "dead.jsonl")
    for _ in range(3):
        add(letters)
    letters.flush()
    assert letters.lost == 3
    assert letters.status().startswith("0 refused samples written, 0 told in sum, 3 lost: ")
    (tmp_path / "file").unlink()
    add(letters)
    letters.close()
    assert letters.written == 1


def test_the_status_says_what_the_last_one_was_about_and_where_they_stand(tmp_path):
    path = tmp_path / "a.jsonl"
    letters = letters_in(path)
    assert letters.status() == "0 refused samples written, 0 told in sum."
    add(letters, Rejection("not_a_number", "column 't'", "'20,5'", "a number", "set decimal"))
    letters.flush()
    assert letters.status() == (
        "1 refused samples written, 0 told in sum. The last: not_a_number: column 't': found '20,5'; "
        f"expected a number; set decimal. All in {path}"
    )


def test_a_start_without_a_refusal_says_where_those_before_it_are(tmp_path):
    path = tmp_path / "dead.jsonl"
    first = letters_in(path)
    assert first.status() == "0 refused samples written, 0 told in sum."
    add(first)
    first.close()
    assert letters_in(path).status().endswith(f" in sum. Those of earlier starts in {path}")
