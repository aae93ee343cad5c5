"""The table of commands as data, each with its flags, help and example; it parses nothing and imports no handler."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple


class Flag(NamedTuple):
    """One word of a command: ``FILE`` (positional), ``--out`` with a metavar (takes a value) or without (a switch).

    ``optional`` is for a positional word that may be left out, ``several`` for a flag that takes any number of values.
    """

    name: str
    help: str
    metavar: str = ""
    default: str | None = None
    parse: Callable[[str], object] = str
    optional: bool = False
    required: bool = False
    several: bool = False


class Command(NamedTuple):
    """One command; ``name`` has two words where it belongs to a group, as ``config show``.

    ``handler`` is a module whose ``main`` takes the parsed arguments, the command's name among them as ``command``,
    and returns the exit code. ``workstation`` is the one in its place where onnx is installed.
    """

    name: str
    help: str
    example: str
    handler: str
    flags: tuple[Flag, ...] = ()
    workstation: str = ""


def _positive(text: str) -> float:
    """Parse a finite number above zero; raise ArgumentTypeError on anything else."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < inf:
        raise ArgumentTypeError(f"{text!r} is not a number above zero")
    return number


_SERVED: Final = Flag("--config", "device file of the lines (default: %(default)s)", "FILE", "device.toml")
_CONFIG: Final = Flag("--config", "device file with the lines", "FILE")
_TRACE: Final = Flag(
    "--trace",
    "write what serial ports say and are told, with its time, to a file of 16 MB at most ('-' for standard error)",
    "FILE",
)
_LINE: Final = Flag("--line", "name of the line, where the device file has several", "NAME")
_PASSWORD_FILE: Final = Flag(
    "--password-file", "file with the private key's password (default: $EDGE_RUNTIME_KEY_PASSWORD, else none)", "FILE"
)
_JSON: Final = Flag("--json", "print JSON instead of text")

_STORE: Final = "edge_runtime.run.store_command"

COMMANDS: Final = (
    Command(
        "demo",
        "play a recorded station in US units through a simulated serial port and print its frost warnings",
        "edge-runtime demo",
        "edge_runtime.run.demo",
    ),
    Command(
        "run",
        "boot, prove the bundle against its goldens, then serve the lines of a device file",
        "edge-runtime run --config /etc/edge-runtime/device.toml --exit-on-refusal",
        "edge_runtime.run.serve",
        (
            _SERVED,
            Flag(
                "--exit-on-refusal",
                "leave with an exit code when a bundle is refused, instead of staying up in ERROR;"
                " where no line has a sensor (serial, mqtt) it always leaves",
            ),
            _TRACE,
        ),
    ),
    Command(
        "selftest",
        "boot, report every check and stop without serving",
        "edge-runtime selftest --bundle bundles/frost --json report.json",
        "edge_runtime.run.selftest",
        (
            Flag("--bundle", "bundle to test: a folder or a .tar of it", "PATH"),
            _CONFIG,
            Flag("--profile", "device profile, by name or file", "PROFILE"),
            Flag(
                "--tier",
                "tiers whose failures count: required, wanted or both (default: %(default)s)",
                "TIERS",
                "required,wanted",
            ),
            Flag("--json", "write the report as JSON ('-' for standard output)", "FILE"),
            Flag("--junit", "write the report as JUnit XML", "FILE"),
            Flag("--textfile", "write the report for node_exporter's textfile collector", "FILE"),
            Flag("--inject", "corrupt the input of one check, which must then fail", "CHECK"),
            Flag("--retry-code", "exit code of a failed self-test (default: %(default)s)", "CODE", "1", int),
        ),
    ),
    Command(
        "inspect",
        "print a bundle's contract as a person reads it",
        "edge-runtime inspect bundles/frost",
        "edge_runtime.run.inspect",
        (Flag("BUNDLE", "a bundle: a folder or a .tar of it"), _JSON),
    ),
    Command(
        "verify",
        "check a bundle's files against their hashes and its manifest and, with --keys, who signed it",
        "edge-runtime verify bundles/frost --keys trusted",
        "edge_runtime.run.inspect",
        (
            Flag("BUNDLE", "a bundle: a folder or a .tar of it"),
            Flag("--keys", "folder of the public keys of which one must have signed it", "DIR"),
            _JSON,
        ),
    ),
    Command(
        "keygen",
        "make a key pair for signing bundles: NAME.key stays with you, NAME.pub goes to the devices",
        "edge-runtime keygen --out line3",
        "edge_runtime.author.sign_command",
        (Flag("--out", "name of the two new files, without their endings", "NAME", required=True), _PASSWORD_FILE),
    ),
    Command(
        "sign",
        "put a signature into a bundle, which says to devices that know the key who made it",
        "edge-runtime sign bundles/frost --key line3.key",
        "edge_runtime.author.sign_command",
        (
            Flag("BUNDLE", "a bundle: a folder or a .tar of it"),
            Flag("--key", "the private key, as `keygen` wrote it", "FILE", required=True),
            _PASSWORD_FILE,
        ),
    ),
    Command(
        "bundle stage",
        "verify a bundle and test it in a process of its own, then bring it into the store; it does not serve yet",
        "edge-runtime bundle stage frost-2.tar --config /etc/edge-runtime/device.toml",
        _STORE,
        (Flag("PATH", "the new bundle: a folder or a .tar of it"), _SERVED),
    ),
    Command(
        "bundle activate",
        "let a staged bundle serve from now on, on trial; a running service takes it over without losing a sample",
        "edge-runtime bundle activate 58a012e9dee0 --config /etc/edge-runtime/device.toml",
        _STORE,
        (Flag("DIGEST", "what `bundle stage` printed, or the first 8 digits of it or more"), _SERVED),
    ),
    Command(
        "bundle confirm",
        "boot the bundles of a device file and, if all pass and none is still on trial, refuse older ones from now on",
        "edge-runtime bundle confirm --config /etc/edge-runtime/device.toml",
        "edge_runtime.run.confirm",
        (_SERVED,),
    ),
    Command(
        "bundle rollback",
        "go back from a bundle on trial to the one that was confirmed",
        "edge-runtime bundle rollback --config /etc/edge-runtime/device.toml",
        _STORE,
        (Flag("ID", "whose, where the lines take several from the store", optional=True), _SERVED),
    ),
    Command(
        "bundle list",
        "list the bundles in the store",
        "edge-runtime bundle list --config /etc/edge-runtime/device.toml",
        _STORE,
        (_SERVED, _JSON),
    ),
    Command(
        "bundle status",
        "say which bundles of the store serve, are confirmed, on trial or were rolled back, and why",
        "edge-runtime bundle status --config /etc/edge-runtime/device.toml",
        _STORE,
        (_SERVED, _JSON),
    ),
    Command(
        "bundle log",
        "print what was done with the bundles of this device",
        "edge-runtime bundle log --verify --config /etc/edge-runtime/device.toml",
        _STORE,
        (
            Flag("--verify", "instead, look whether a line was cut off, changed or taken out; 1 where one was"),
            _SERVED,
            _JSON,
        ),
    ),
    Command(
        "bundle gc",
        "remove staged bundles that nothing points to, and what killed commands have left",
        "edge-runtime bundle gc --config /etc/edge-runtime/device.toml",
        _STORE,
        (_SERVED,),
    ),
    Command(
        "diff",
        "tell what differs between two bundles, and what it means for a line bound to the first",
        "edge-runtime diff bundles/frost bundles/dewpoint",
        "edge_runtime.run.diff",
        (Flag("A", "the bundle in use: a folder or a .tar of it"), Flag("B", "the bundle that is to come"), _JSON),
    ),
    Command(
        "explain",
        "say what broke a self-test first, by how much, in which node or step, what changed since, and what to do",
        "edge-runtime explain report.json --bundle from-the-device/frost --against bundles/frost",
        "edge_runtime.run.explain",
        (
            Flag("REPORT", "a report that `selftest --json` wrote", optional=True),
            Flag("--bundle", "the bundle that was tested; without REPORT, boot it now", "PATH"),
            Flag(
                "--against",
                "the bundle that was delivered; with onnx: name the first node or step that differs",
                "PATH",
            ),
            Flag("--config", "device file whose lines are to be booted with it", "FILE"),
            Flag("--profile", "device profile, by name or file", "PROFILE"),
            Flag("--inject", "corrupt the input of one check, to see how it would be told", "CHECK"),
        ),
        "edge_runtime.author.bisect_command",
    ),
    Command(
        "doctor",
        "look over this machine: processor, memory, provider, serial ports, disk, clock",
        "edge-runtime doctor --config device.toml",
        "edge_runtime.run.doctor",
        (_CONFIG, _JSON),
    ),
    Command(
        "bind",
        "tell what a line makes of captured payloads: each channel's number with its units, or why it is refused",
        "edge-runtime bind --dry-run --config device.toml --line roof captured.jsonl",
        "edge_runtime.run.bind",
        (
            Flag("PAYLOADS", "one a line, or from mosquitto_sub -F '%%j'; '-' or none: standard input", optional=True),
            Flag(
                "--dry-run",
                "required, for bind does nothing else and refuses without it: no source is opened, no model runs, nothing"
                " is written or sent; `run` puts a binding to work",
            ),
            _SERVED,
            _LINE,
        ),
    ),
    Command(
        "init",
        "draft a contract.toml from a model and data, with a TODO for what only its author knows",
        "edge-runtime init model.onnx --data data.npz",
        "edge_runtime.author.init_command",
        (
            Flag("MODEL", "the exported ONNX model"),
            Flag("--data", "the raw values it was trained on: .npz, .csv or .parquet", "FILE"),
            Flag("--target", "the column of a table that is what was true, and no channel", "COLUMN"),
            Flag("--out", "the draft (default: %(default)s)", "FILE", "contract.toml"),
        ),
    ),
    Command(
        "build",
        "make a bundle from contract.toml, an exported ONNX model and data",
        "edge-runtime build examples/frost/contract.toml --out bundles/frost",
        "edge_runtime.author.build_command",
        (
            Flag("CONTRACT", "the author's contract.toml"),
            Flag("--out", "folder of the new bundle", "DIR"),
            Flag("--record", "build.json of an earlier build, to get the same bytes again", "FILE"),
            Flag(
                "--evidence",
                "self-test reports of real devices; tolerances are measured and proposed",
                "REPORT",
                several=True,
            ),
            Flag(
                "--validate",
                "samples that devices have captured; the new answers are held against the old ones",
                "CAPTURE",
                several=True,
            ),
            _JSON,
        ),
    ),
    Command(
        "mutate",
        "put one mistake at a time into the line and count which of them a bundle's goldens notice",
        "edge-runtime mutate bundles/frost",
        "edge_runtime.author.mutate_command",
        (
            Flag("BUNDLE", "a bundle: a folder or a .tar of it"),
            Flag("--float", "the float32 model an int8 one was quantized from, as one more mutant", "FILE"),
            Flag("--seconds", "time for each variant (default: %(default)s)", "N", "120", _positive),
            _JSON,
        ),
    ),
    Command(
        "replay",
        "play a recording through a line in its own event time",
        "edge-runtime replay examples/frost/station_us_units.csv --config examples/frost/device.toml",
        "edge_runtime.run.replay",
        (
            Flag(
                "FILE",
                "the recording, as `record` wrote it, the raw text of a stream, or a capture of mosquitto_sub -F '%%j'",
            ),
            _SERVED,
            _LINE,
            Flag("--speed", "times the recorded pace (default: as fast as it goes)", "FACTOR", None, _positive),
            Flag("--out", "write the answers to a file (default: standard output)", "FILE"),
        ),
    ),
    Command(
        "record",
        "write a line's raw bytes or messages with their arrival times, for `replay`",
        "edge-runtime record --config device.toml --line frost --out frost.rec --seconds 60",
        "edge_runtime.run.record",
        (
            _SERVED,
            _LINE,
            Flag("--out", "write the recording to a file (default: standard output)", "FILE"),
            Flag("--seconds", "stop after so many seconds (default: at SIGINT or SIGTERM)", "N", None, _positive),
            _TRACE,
        ),
    ),
    Command(
        "status",
        "print what a running device says of itself: state, ledgers, last answers",
        "edge-runtime status --config device.toml --json",
        "edge_runtime.run.status",
        (_SERVED, _JSON),
    ),
    Command(
        "config show",
        "print the resolved configuration, defaults included",
        "edge-runtime config show --resolved --config device.toml",
        "edge_runtime.run.config",
        (_SERVED, Flag("--resolved", "as TOML, each value with the file it came from")),
    ),
    Command(
        "config check",
        "check a device file and what lies in its drop-in folder, and open nothing that it names",
        "edge-runtime config check --config device.toml",
        "edge_runtime.run.config",
        (_SERVED,),
    ),
)

GROUPS: Final = {"bundle": "the bundles that a device serves", "config": "the device file"}
