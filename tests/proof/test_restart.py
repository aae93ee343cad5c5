"""What a device file's change, or a neighbour's failure, between two runs must not cost."""

import json
import re
import subprocess

from tests.proof.station import STATION, answers, call, device_file, environment, ledger, program, run

JSONL = '{ kind = "jsonl", path = "answers.jsonl" }'


def _halves(tmp_path):
    rows = STATION.read_bytes().splitlines(keepends=True)
    (tmp_path / "stream.csv").write_bytes(b"".join(rows[:100]))
    return b"".join(rows)


def test_a_line_that_could_not_start_leaves_the_journal_of_its_neighbour_alone(tmp_path):
    whole = _halves(tmp_path)
    assert run(tmp_path, "stream.csv", sinks=[JSONL], journal='enabled = "on"').returncode == 0
    before = (tmp_path / "state" / "frost.journal").read_bytes()
    assert len(before) > 5000
    path = tmp_path / "device.toml"
    good = path.read_text()
    line = good[good.index("[[line]]") :]
    first = (
        line.replace('name = "frost"', 'name = "first"').replace("stream.csv", "absent.csv").replace("answers", "first")
    )
    path.write_text(good[: good.index("[[line]]")] + first + line)
    done = call(tmp_path, "run", "--exit-on-refusal", "--config", path)
    assert done.returncode == 78, done.stderr
    assert b"absent.csv" in done.stderr
    assert (tmp_path / "state" / "frost.journal").read_bytes() == before
    path.write_text(good)
    (tmp_path / "stream.csv").write_bytes(whole)
    assert call(tmp_path, "run", "--exit-on-refusal", "--config", path).returncode == 0
    assert len(answers((tmp_path / "answers.jsonl").read_bytes())) == 169


def test_sinks_may_be_added_renamed_and_taken_away_between_two_runs(tmp_path):
    whole = _halves(tmp_path)
    assert run(tmp_path, "stream.csv", sinks=[JSONL], journal='enabled = "on"').returncode == 0
    (tmp_path / "stream.csv").write_bytes(whole)
    more = [JSONL.replace("answers", "second"), JSONL]
    done = run(tmp_path, "stream.csv", sinks=more, journal='enabled = "on"')
    assert done.returncode == 0, done.stderr
    assert len(answers((tmp_path / "answers.jsonl").read_bytes())) == 169
    assert len(answers((tmp_path / "second.jsonl").read_bytes())) == 169 - 76
    assert ledger(tmp_path)["counts"]["answers"]["published"] == 169


def test_a_slow_reader_of_a_replay_costs_no_answer(tmp_path):
    """A file can wait: however little the outbox may hold, nothing of it is dropped."""
    header, *rows = STATION.read_text().splitlines()
    hours = [f"{2000 + turn}-{row[5:]}" for turn in range(20) for row in rows]
    (tmp_path / "long.csv").write_text("\n".join([header, *hours]) + "\n")
    config = device_file(tmp_path, "long.csv", journal='enabled = "on", max_bytes = 65536')
    with subprocess.Popen(
        program("run", "--exit-on-refusal", "--config", config), cwd=tmp_path, env=environment(tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        given = []
        while piece := process.stdout.read(700):
            given.append(piece)
    assert process.returncode == 0
    counts = ledger(tmp_path)["counts"]
    assert counts["answers"]["dropped"] == {}
    assert counts["answers"]["published"] == len(answers(b"".join(given))) == 20 * 169


def test_the_run_id_is_all_that_differs_between_two_runs(tmp_path):
    outputs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        outputs.append(run(tmp_path / name).stdout)
    bare = [re.sub(rb',"run":"[0-9a-f]{8}"', b"", output) for output in outputs]
    assert bare[0] == bare[1]
    assert len({json.loads(line)["run"] for output in outputs for line in output.splitlines()}) == 2
