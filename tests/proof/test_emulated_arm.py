"""64-bit ARM boards, emulated: the locked wheels, the shipped bundles, and a recording's answers as x86 gives them, to the bit."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.proof.emulated_selftests import BUNDLES, Trial, asked, found, judge
from tests.rig import arm64, emulated
from tests.rig.arm64 import CORTEX_A72, CORTEX_A78AE, NEWEST, PROCESSORS, Processor
from tests.rig.bundles import DEWPOINT, FROST, ROOT
from tests.rig.program import run_program

PROFILE = "generic_arm64"
QUICK = (FROST, ROOT / "bundles" / "digits", DEWPOINT, ROOT / "bundles" / "tiny_gru")
EXAMPLE = ROOT / "examples" / "frost"
DRILL = "drill"
# The word (AT_HWCAP, AT_HWCAP2) and the bit of each feature, as Linux's asm/hwcap.h has them.
_HWCAP = {"asimd": (16, 1), "asimddp": (16, 20), "sve": (16, 22), "i8mm": (26, 13), "bf16": (26, 14), "sme": (26, 23)}
_FEATURES = f"""
import ctypes, json
word = ctypes.CDLL(None).getauxval
word.argtypes, word.restype = [ctypes.c_ulong], ctypes.c_ulong
print(json.dumps([name for name, (at, bit) in {_HWCAP!r}.items() if word(at) >> bit & 1]))
"""
_VERSIONS = """
import json, sys
from importlib import import_module, metadata
for name in sys.argv[1:]:
    import_module(name)
print(json.dumps({one.name.lower().replace("_", "-"): one.version for one in metadata.distributions()}))
"""
# What no self-test and no recording loads.
_MODULES = ("serial", "mqtt5", "paho.mqtt.client", "cryptography.hazmat.primitives.asymmetric.ec")

by_name = pytest.mark.parametrize("processor", PROCESSORS, ids=lambda one: one.name)


@dataclass(frozen=True, slots=True)
class Board:
    """What came of an emulated board: its self-tests by name, and the answers it gave to the recording."""

    trials: dict[str, Trial]
    answers: list[dict[str, Any]]


def _replay(answers: Path) -> list[str]:
    recording, device = str(EXAMPLE / "station_us_units.csv"), str(EXAMPLE / "device.toml")
    return ["replay", recording, "--config", device, "--out", str(answers)]


def _answers(path: Path) -> list[dict[str, Any]]:
    """Each answer, but for the name of the run that gave it."""
    return [json.loads(line) | {"run": None} for line in path.read_text().splitlines()]


def _said(processor: Processor, words: list[str], folder: Path) -> Any:
    program = arm64.start(processor, words, folder)
    said, told = program.communicate(timeout=emulated.PATIENCE_S)
    assert program.returncode == 0, told[-3000:]
    return json.loads(said)


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Board]:
    """The quick bundles, a drill and a recording on each processor, all side by side."""
    trials = {one.name: ["--bundle", str(one)] for one in QUICK}
    trials[DRILL] = ["--bundle", str(DEWPOINT), "--inject", "golden_output"]
    places = {one: tmp_path_factory.mktemp(one.name) for one in PROCESSORS}
    programs = {
        one: arm64.start_calls(one, [*asked(place, trials, PROFILE), _replay(place / "answers")], place)
        for one, place in places.items()
    }
    seen = {}
    for one, program in programs.items():
        *codes, replayed = emulated.codes(program)
        assert replayed == 0
        seen[one.name] = Board(found(places[one], trials, codes), _answers(places[one] / "answers"))
    return seen


@by_name
def test_shipped_bundles_pass(boards: dict[str, Board], processor: Processor) -> None:
    for bundle in QUICK:
        trial = boards[processor.name].trials[bundle.name]
        assert trial.environment["architecture"] == "aarch64"
        assert trial.environment["processor"] == processor.name
        judge(processor.name, bundle, 0, trial)


@by_name
def test_a_wrong_output_would_fail_there(boards: dict[str, Board], processor: Processor) -> None:
    drill = boards[processor.name].trials[DRILL]
    assert drill.code == 1
    assert drill.checks["golden_output"]["status"] == "fail"


@by_name
def test_a_recording_gets_the_answers_of_x86(boards: dict[str, Board], processor: Processor, tmp_path: Path) -> None:
    """An int8 model behind steps in float32: all of it, to the last bit, times, flags and identities included."""
    here = run_program(*_replay(tmp_path / "answers"), home=tmp_path)
    assert here.returncode == 0, here.stderr
    expected = _answers(tmp_path / "answers")
    assert len(expected) == 169
    assert boards[processor.name].answers == expected


@by_name
def test_the_processor_has_what_its_file_claims(processor: Processor, tmp_path: Path) -> None:
    """What the C library hears from QEMU, which says what it executes, against the /proc/cpuinfo that is put before it."""
    claimed = {name for name in processor.features.split() if name in _HWCAP}
    assert set(_said(processor, ["-S", "-c", _FEATURES], tmp_path)) == claimed


def test_the_processors_differ_in_what_computes_int8() -> None:
    has = [{"asimddp", "i8mm"} & set(one.features.split()) for one in (CORTEX_A72, CORTEX_A78AE, NEWEST)]
    assert has == [set(), {"asimddp"}, {"asimddp", "i8mm"}]


def test_the_locked_wheels_are_there_for_aarch64(tmp_path: Path) -> None:
    """Each of uv.lock has a wheel that is loaded there, by its own hash."""
    versions = _said(CORTEX_A72, ["-S", "-c", _VERSIONS, *_MODULES], tmp_path)
    lock = (ROOT / "uv.lock").read_text()
    assert {"numpy", "onnxruntime", "pydantic-core", "pyserial", "mqtt5", "paho-mqtt", "cryptography"} <= set(versions)
    locked = set(re.findall(r'(?m)^name = "(.+)"\nversion = "(.+)"$', lock))
    assert set(versions.items()) <= locked


@pytest.mark.long
def test_every_shipped_bundle_and_variant_passes(tmp_path: Path) -> None:
    second = tmp_path / "second.toml"
    second.write_text(
        'name = "second"\nschema = "edge-runtime/profile/1"\ndescription = "a test"\ninherits = "generic_arm64"\n'
        'variant = "cpu_int8"\n'
    )
    trials = {one.name: ["--bundle", str(one)] for one in BUNDLES}
    trials["tiny_pump, cpu_int8"] = ["--bundle", str(ROOT / "bundles/tiny_pump"), "--profile", str(second)]
    places = {one: tmp_path / one.name for one in PROCESSORS}
    for place in places.values():
        place.mkdir()
    programs = {one: arm64.start_calls(one, asked(place, trials, PROFILE), place) for one, place in places.items()}
    for one, program in programs.items():
        for name, trial in found(places[one], trials, emulated.codes(program)).items():
            judge(one.name, ROOT / "bundles" / name.partition(",")[0], int("," in name), trial)
