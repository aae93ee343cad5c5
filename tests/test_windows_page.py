"""docs/windows.md and the task it imports: what they name is there, and the XML says what the page says of it."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "windows.md").read_text(encoding="utf-8")
SPACE = "{http://schemas.microsoft.com/windows/2004/02/mit/task}"


def test_it_says_first_that_nobody_has_run_it() -> None:
    assert PAGE.splitlines()[1].startswith("**Not run on Windows.**")


def test_the_files_it_names_are_there() -> None:
    named = re.findall(r"`((?:packaging|tests)/[\w./-]+)`", PAGE)
    assert len(named) == 2
    assert all((ROOT / name).is_file() for name in named)


def test_the_task_starts_with_the_machine_and_again_and_runs_without_end() -> None:
    task = ET.parse(ROOT / "packaging" / "windows" / "edge-runtime-task.xml").getroot()  # noqa: S314 -- our own file
    assert task.tag == f"{SPACE}Task"

    def text(path: str) -> str:
        return str(task.findtext("/".join(SPACE + part for part in path.split("/"))))

    assert text("Triggers/BootTrigger/Enabled") == "true"
    assert text("Settings/ExecutionTimeLimit") == "PT0S"  # else the scheduler ends it after three days
    assert text("Settings/RestartOnFailure/Interval") == "PT1M"
    assert text("Settings/MultipleInstancesPolicy") == "IgnoreNew"
    assert text("Settings/DisallowStartIfOnBatteries") == "false"
    assert text("Principals/Principal/UserId") == "S-1-5-19"
    assert text("Actions/Exec/Arguments").startswith("run --exit-on-refusal --config C:\\")
    order = [one.tag.removeprefix(SPACE) for one in task]
    assert order == ["RegistrationInfo", "Triggers", "Principals", "Settings", "Actions"]  # as its schema wants them
