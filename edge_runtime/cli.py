"""Words to calls and errors to exit codes; it does no work of its own and imports only the called handler."""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import NoReturn

from edge_runtime import __version__
from edge_runtime.commands import COMMANDS, GROUPS, Command, Flag
from edge_runtime.errors import DeviceError, EdgeRuntimeError, InternalError, UsageError

_PROGRAM = "edge-runtime"
_HELP = "help"
_AUTHOR = "edge_runtime.author"
_INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
_PIPE_CLOSED = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, as docs/exit_codes.md lists them; every exception becomes one.

    ``argv`` is the command line without the program's name, by default this process's own.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _call(words)
        sys.stdout.flush()
    except EdgeRuntimeError as failure:
        return _tell(failure)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has left, as `| head` does; the exit-time flush must not complain about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except Exception as fault:  # noqa: BLE001 -- the outermost loop: whatever comes this far is a fault of ours
        return _tell(_internal(fault, words))
    return code


def parser(commands: Sequence[Command] = COMMANDS) -> argparse.ArgumentParser:
    """Build the tree of these commands; the whole one takes 7 ms."""
    top = _Parser(
        prog=_PROGRAM,
        description="Serve an exported ONNX model next to a sensor, once it has passed its own goldens.",
        epilog=f"`{_PROGRAM} help COMMAND` says more of one. example: {COMMANDS[0].example}",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    trees = {"": top.add_subparsers(title="commands", metavar="COMMAND", required=True)}
    for command in commands:
        group, _, name = command.name.rpartition(" ")
        if group not in trees:
            branch = trees[""].add_parser(group, help=GROUPS[group], description=GROUPS[group], allow_abbrev=False)
            trees[group] = branch.add_subparsers(title="commands", metavar="COMMAND", required=True)
        leaf = trees[group].add_parser(
            name,
            help=command.help,
            description=command.help[0].upper() + command.help[1:] + ".",
            epilog=f"example: {command.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,  # an example is copied whole
            allow_abbrev=False,
        )
        leaf.set_defaults(command=command)
        _add_flags(leaf, command.flags)
    return top


class _Parser(argparse.ArgumentParser):
    """argparse's own extension point for errors: it would print a usage block and leave, we owe one line."""

    def error(self, message: str) -> NoReturn:
        missing = message.partition("the following arguments are required: ")[2]
        raise UsageError(
            subject=f"command line of `{self.prog}`",
            found=f"no {missing}" if missing else message.removeprefix("argument "),
            expected=missing or "the words its help lists",
            todo=f"see `{self.prog} --help`",
        )


def _add_flags(leaf: argparse.ArgumentParser, flags: tuple[Flag, ...]) -> None:
    for flag in flags:
        if not flag.name.startswith("-"):
            leaf.add_argument(
                flag.name.lower(), metavar=flag.name, help=flag.help, nargs="?" if flag.optional else None
            )
        elif flag.metavar:
            leaf.add_argument(
                flag.name,
                metavar=flag.metavar,
                help=flag.help,
                default=flag.default,
                type=flag.parse,
                required=flag.required,
                nargs="*" if flag.several else None,
            )
        else:
            leaf.add_argument(flag.name, help=flag.help, action="store_true")


def _call(words: list[str]) -> int:
    if not words:
        parser().print_help(sys.stderr)
        return UsageError.exit_code
    while words and words[0] == _HELP:
        words = [*words[1:], "--help"]
    _refuse_unknown_command(words)
    called = [command for command in COMMANDS if command.name.split() == words[: command.name.count(" ") + 1]]
    try:
        arguments, extra = parser(called or COMMANDS).parse_known_args(words)
    except SystemExit as leaving:  # argparse has printed --help or --version
        return int(leaving.code or 0)
    command: Command = arguments.command
    if extra:
        _refuse_missing_flag(extra[0], command, words)
        raise _unknown(extra[0], (flag.name for flag in command.flags), f"{_PROGRAM} {command.name}")
    arguments.command = command.name
    code: int = _handler(_module(command))(arguments)
    return code


def _module(command: Command) -> str:
    """A device has no onnx, and then needs no module that a workstation has; the frozen program has none of them at all."""
    if command.handler.startswith(_AUTHOR) and find_spec(_AUTHOR) is None:
        raise DeviceError(
            subject=f"`{_PROGRAM} {command.name}`", found="the device's half of edge-runtime alone, as it is frozen",
            expected="a workstation with the author's half", todo="install edge-runtime[cpu,author,signing] there with pip",
        )  # fmt: skip
    return command.workstation if command.workstation and find_spec("onnx") else command.handler


def _handler(module: str) -> Callable[[argparse.Namespace], int]:
    """Load a handler, and keep its modules out of every search for cycles: they come to stay, and it would cost 25 ms."""
    gc.disable()
    try:
        main: Callable[[argparse.Namespace], int] = import_module(module).main
    finally:
        gc.freeze()
        gc.enable()
    return main


def _refuse_unknown_command(words: list[str]) -> None:
    """Name the nearest command, which argparse does not."""
    known = {command.name for command in COMMANDS}
    first = words[0] if words else ""
    if first and not first.startswith("-"):
        names = {name.partition(" ")[0] for name in known} | {_HELP}
        if first not in names:
            raise _unknown(first, names, _PROGRAM)
        second = words[1] if len(words) > 1 else ""
        if first in GROUPS and second and not second.startswith("-") and f"{first} {second}" not in known:
            inside = {name.partition(" ")[2] for name in known if name.startswith(f"{first} ")}
            raise _unknown(second, inside, f"{_PROGRAM} {first}")


def _refuse_missing_flag(word: str, command: Command, words: list[str]) -> None:
    """Name the flag that was left out before a file or a bundle, where the command takes no bare word at all."""
    names = [flag.name for flag in command.flags]
    takes = [name for name in ("--bundle", "--config") if name in names]
    given = any(one.partition("=")[0] in takes for one in words)
    if word.startswith("-") or f"--{word}" in names or not takes or given or not all(n.startswith("-") for n in names):
        return
    if takes == ["--config"]:
        _refuse_bundle(word, command)
    meant = "--config" if word.endswith(".toml") and "--config" in takes else takes[0]
    raise UsageError(
        subject=f"command line of `{_PROGRAM} {command.name}`",
        found=f"{word!r} without a flag before it",
        expected=f"`{meant} {word}`, which was probably meant",
        todo=f"see `{_PROGRAM} {command.name} --help`",
    )


def _refuse_bundle(word: str, command: Command) -> None:
    """Refuse a bundle where a device file belongs, by its name alone: a command line reads no model."""
    from pathlib import Path  # noqa: PLC0415 -- only a mistake needs it

    path = Path(word)
    is_model = path.suffix == ".onnx"
    if is_model or path.suffix == ".tar" or (path / "manifest.json").is_file():
        todo = "write one like the smallest example of docs/device_toml.md"
        raise UsageError(
            subject=f"command line of `{_PROGRAM} {command.name}`",
            found=f"{word!r}, {'a bare model' if is_model else 'a bundle'}",
            expected="`--config device.toml`, a device file that names the bundle, its source and its units",
            todo=f"make a bundle of it with `{_PROGRAM} build`, then {todo}" if is_model else todo,
        )


def _unknown(word: str, names: Iterable[str], program: str) -> UsageError:
    from difflib import get_close_matches  # noqa: PLC0415 -- only a mistake needs it

    listed = sorted(names) or ["nothing more"]
    nearest = get_close_matches(word.partition("=")[0], listed, n=1, cutoff=0.5)
    return UsageError(
        subject=f"command line of `{program}`",
        found=f"unknown word {word!r}",
        expected=f"{nearest[0]!r} perhaps" if nearest else ", ".join(listed),
        todo=f"see `{program} --help`",
    )


def _internal(fault: Exception, words: list[str]) -> InternalError:
    return InternalError(
        subject=f"internal error in `{' '.join([_PROGRAM, *words])}`",
        found=f"{type(fault).__name__}: {fault}",
        expected="no exception to come this far",
        todo="repeat it with EDGE_RUNTIME_DEBUG=1 and report what it prints, with `edge-runtime doctor --json`",
    )


def _tell(failure: EdgeRuntimeError) -> int:
    if os.environ.get("EDGE_RUNTIME_DEBUG") == "1":
        from traceback import print_exc  # noqa: PLC0415 -- only asked for by who hunts a fault

        print_exc()
    for one in (failure, *failure.others):
        print(f"{_PROGRAM}: {one}", file=sys.stderr)  # noqa: T201 -- the one line every failure gets
    return failure.exit_code
