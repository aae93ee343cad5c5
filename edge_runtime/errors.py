"""The whole failure tree, split by what the operator can do about it; it knows nothing of where a failure happens."""

from typing import ClassVar


class EdgeRuntimeError(Exception):
    """A failure that stops a command, told in one line: subject, found, expected, what to do.

    ``exit_code`` follows sysexits.h, as docs/exit_codes.md lists. ``others`` are further mistakes found at the same time,
    as those of one file are, each with a line of its own.
    """

    exit_code: ClassVar[int] = 70

    def __init__(
        self, *, subject: str, found: str, expected: str, todo: str, others: "tuple[EdgeRuntimeError, ...]" = ()
    ) -> None:
        self.subject = subject
        self.found = found
        self.expected = expected
        self.todo = todo
        self.others = others
        super().__init__(subject, found, expected, todo)

    def __str__(self) -> str:
        line = f"{self.subject}: found {self.found}; expected {self.expected}; {self.todo}"
        return escaped(" ".join(line.split()))

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.subject, self.found, self.expected, self.todo, self.others))


def _rebuild(
    kind: type[EdgeRuntimeError],
    subject: str,
    found: str,
    expected: str,
    todo: str,
    others: tuple[EdgeRuntimeError, ...],
) -> EdgeRuntimeError:
    return kind(subject=subject, found=found, expected=expected, todo=todo, others=others)


class UsageError(EdgeRuntimeError):
    """The command line is wrong: correct the words."""

    exit_code = 2


class BundleError(EdgeRuntimeError):
    """The bundle cannot be trusted or served: fix or replace the bundle."""

    exit_code = 65


class DeviceError(EdgeRuntimeError):
    """The machine or its provider is unfit: fix the device."""

    exit_code = 69


class InternalError(EdgeRuntimeError):
    """A fault of ours: report a bug."""

    exit_code = 70


class TemporaryError(EdgeRuntimeError):
    """Something outside is not there yet: wait."""

    exit_code = 75


class ConfigurationError(EdgeRuntimeError):
    """device.toml, a contract or a profile is wrong: fix the configuration."""

    exit_code = 78


class SampleRefused(EdgeRuntimeError):
    """One sample handed in from Python was refused; the stream goes on. ``reason`` is the ledger's word for it."""

    exit_code = 65

    def __init__(self, *, reason: str, subject: str, found: str, expected: str, todo: str) -> None:
        self.reason = reason
        super().__init__(subject=subject, found=found, expected=expected, todo=todo)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild_sample, (self.reason, self.subject, self.found, self.expected, self.todo))


def _rebuild_sample(reason: str, subject: str, found: str, expected: str, todo: str) -> SampleRefused:
    return SampleRefused(reason=reason, subject=subject, found=found, expected=expected, todo=todo)


def escaped(text: str) -> str:
    """``text`` in one line that a terminal or a log is safe from: what is not printable as Python would write it."""
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
