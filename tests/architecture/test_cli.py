"""Every command says what it does, shows an example and has its handler; every slip of the fingers gets one line."""

import importlib
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import edge_runtime
from edge_runtime import __main__ as entry
from edge_runtime import cli
from edge_runtime.commands import COMMANDS, Command
from edge_runtime.errors import BundleError, ConfigurationError, DeviceError, TemporaryError

ROOT = Path(__file__).parents[2]
every_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


def answer_with(monkeypatch: pytest.MonkeyPatch, main: object) -> None:
    monkeypatch.setattr(cli, "import_module", lambda _name: SimpleNamespace(main=main))


def raiser(failure: BaseException) -> object:
    def main(_arguments: object) -> int:
        raise failure

    return main


def test_version_is_the_project_s() -> None:
    assert edge_runtime.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_open_is_the_only_lazy_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'shut'"):
        _ = edge_runtime.shut


def test_open_opens_a_bundle() -> None:
    assert edge_runtime.open is importlib.import_module("edge_runtime.run.api").open_bundle


@every_command
def test_help_shows_the_example(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*command.name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"example: {command.example}\n" in shown
    assert command.help[1:] in " ".join(shown.split())
    for flag in command.flags:
        assert flag.name in shown


@every_command
def test_example_is_a_command_line_of_that_command(command: Command) -> None:
    arguments = cli.parser().parse_args(shlex.split(command.example)[1:])
    assert arguments.command is command


@every_command
def test_handler_can_be_imported(command: Command) -> None:
    assert callable(importlib.import_module(command.handler).main)


def test_no_word_at_all_shows_the_help_where_errors_go(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert all(command.name.partition(" ")[0] in err for command in COMMANDS)


@pytest.mark.parametrize("words", [["help"], ["help", "help"]])
def test_help_is_a_command_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 0
    shown = capsys.readouterr()
    assert cli.main(["--help"]) == 0
    assert shown == capsys.readouterr()


@every_command
def test_help_of_a_command(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["help", *command.name.split()]) == 0
    shown = capsys.readouterr()
    assert cli.main([*command.name.split(), "--help"]) == 0
    assert shown == capsys.readouterr()


def test_handler_gets_the_arguments_and_gives_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    answer_with(monkeypatch, lambda arguments: seen.append(arguments) or 7)
    assert cli.main(["selftest", "--bundle", "b", "--retry-code", "21"]) == 7
    assert (seen[0].command, seen[0].bundle, seen[0].retry_code, seen[0].config) == ("selftest", "b", 21, None)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["rnu"], "`edge-runtime`: found unknown word 'rnu'; expected 'run' perhaps; see `edge-runtime --help`"),
        (["selftst"], "found unknown word 'selftst'; expected 'selftest' perhaps"),
        (["zzz"], "found unknown word 'zzz'; expected bind, build, bundle, config, demo,"),
        (["help", "rnu"], "found unknown word 'rnu'; expected 'run' perhaps"),
        (["config", "shwo"], "`edge-runtime config`: found unknown word 'shwo'; expected 'show' perhaps"),
        (["run", "--confg=a"], "`edge-runtime run`: found unknown word '--confg=a'; expected '--config' perhaps"),
        (["run", "--conf", "a"], "found unknown word '--conf'; expected '--config' perhaps"),
        (["demo", "now"], "found unknown word 'now'; expected nothing more; see `edge-runtime demo --help`"),
        (
            ["run", "a/device.toml"],
            "found 'a/device.toml' without a flag before it; expected `--config a/device.toml`, which",
        ),
        (
            ["status", "device"],
            "expected `--config device`, which was probably meant; see `edge-runtime status --help`",
        ),
        (
            ["run", str(ROOT / "bundles/frost")],
            "names the bundle, its source and its units; write one like the smallest example of docs/device_toml.md",
        ),
        (["status", "frost.tar"], "found 'frost.tar', a bundle; expected `--config device.toml`, a device file"),
        (
            ["run", "m.onnx"],
            "'m.onnx', a bare model; expected `--config device.toml`, a device file that names the bundle",
        ),
        (
            ["run", "m.onnx"],
            "make a bundle of it with `edge-runtime build`, then write one like the smallest example of",
        ),
        (["config", "show", "a.toml"], "line of `edge-runtime config show`: found 'a.toml' without a flag before it"),
        (["selftest", "a.toml"], "expected `--config a.toml`, which was probably meant"),
        (["selftest", "bundles/frost"], "expected `--bundle bundles/frost`, which was probably meant"),
        (["status", "json"], "found unknown word 'json'; expected '--json' perhaps"),
        (["run", "--config", "a.toml", "b.toml"], "found unknown word 'b.toml'; expected"),
        (["keygen"], "`edge-runtime keygen`: found no --out; expected --out; see `edge-runtime keygen --help`"),
        (["sign", "b"], "`edge-runtime sign`: found no --key; expected --key"),
        (["sign", "--key", "k"], "`edge-runtime sign`: found no BUNDLE; expected BUNDLE"),
        (["bundle"], "`edge-runtime bundle`: found no COMMAND; expected COMMAND"),
        (["inspect"], "`edge-runtime inspect`: found no BUNDLE; expected BUNDLE"),
        (["replay", "f", "--speed", "fast"], "found --speed: 'fast' is not a number above zero"),
        (["replay", "f", "--speed", "nan"], "found --speed: 'nan' is not a number above zero"),
        (["record", "--seconds", "0"], "found --seconds: '0' is not a number above zero"),
        (["replay", "f", "--bundle", "b"], "found unknown word '--bundle'; expected"),
        (["selftest", "--retry-code", "x"], "found --retry-code: invalid int value: 'x'"),
    ],
)
def test_a_wrong_command_line_gets_one_line(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("edge-runtime: ")
    assert err.count("\n") == 1
    assert line in err


@pytest.mark.parametrize(
    ("kind", "code"), [(BundleError, 65), (DeviceError, 69), (TemporaryError, 75), (ConfigurationError, 78)]
)
def test_a_failure_is_one_line_and_its_code(
    kind: type[BundleError], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer_with(monkeypatch, raiser(kind(subject="model.onnx", found="1\nbyte", expected="2", todo="copy it again")))
    assert cli.main(["demo"]) == code
    assert capsys.readouterr().err == "edge-runtime: model.onnx: found 1 byte; expected 2; copy it again\n"


def test_a_fault_of_ours_is_one_line_too(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("EDGE_RUNTIME_DEBUG", raising=False)
    answer_with(monkeypatch, raiser(KeyError("width")))
    assert cli.main(["demo"]) == 70
    error = capsys.readouterr().err
    assert "internal error in `edge-runtime demo`: found KeyError: 'width'" in error
    assert error.count("\n") == 1


def test_debug_adds_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("EDGE_RUNTIME_DEBUG", "1")
    answer_with(monkeypatch, raiser(KeyError("width")))
    assert cli.main(["demo"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_interrupt_is_quiet(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answer_with(monkeypatch, raiser(KeyboardInterrupt()))
    assert cli.main(["demo"]) == 130
    assert capsys.readouterr() == ("", "")


def test_a_reader_that_left_is_no_failure() -> None:
    program = (
        "import sys\n"
        "from types import SimpleNamespace\n"
        "from edge_runtime import cli\n"
        "cli.import_module = lambda name: SimpleNamespace(main=lambda arguments: print('x' * 10**7) or 0)\n"
        "sys.exit(cli.main(['demo']))\n"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (141, "x", "")


def test_entry_sets_the_environment_but_leaves_the_user_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "main", lambda: 3)
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    assert entry.main() == 3
    assert entry.os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    assert entry.os.environ["OMP_NUM_THREADS"] == "4"


@pytest.mark.parametrize("words", [["build", "contract.toml"], ["init", "model.onnx"], ["keygen", "--out", "a"]])
def test_a_program_without_the_author_s_half_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda _: None)
    assert cli.main(words) == DeviceError.exit_code
    assert capsys.readouterr().err == (
        f"edge-runtime: `edge-runtime {words[0]}`: found the device's half of edge-runtime alone, as it is frozen; expected"
        " a workstation with the author's half; install edge-runtime[cpu,author,signing] there with pip\n"
    )
