"""Holds a model in its own framework against the bundle: writes its answers down, or compares them; it imports no framework."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.author.parity_rows import Raw, rows_of
from edge_runtime.author.proof import LIMIT
from edge_runtime.author.unsaid import TENSOR_WAY
from edge_runtime.bundle.arrays import write_arrays
from edge_runtime.bundle.golden import Goldens
from edge_runtime.errors import BundleError, ConfigurationError, DeviceError
from edge_runtime.flow.model import Model
from edge_runtime.run.boot import boot
from edge_runtime.run.goldens import passage
from edge_runtime.run.setting import make_setting
from edge_runtime.spec.outputs import Destandardize, Output

# What a framework gives: the only output, or all of them by tensor name.
Outputs = Any | Mapping[str, Any]
# Takes raw values, gives the outputs, or a pair: the outputs and the input tensors they were made from.
Answering = Callable[[Raw], Outputs | tuple[Outputs, Outputs]]

_FLOAT16_LIMIT = 1e-2


class _Answered(NamedTuple):
    """What a callable gave, as arrays by tensor name; the name of an only one is ``""``."""

    outputs: dict[str, NDArray[Any]]
    tensors: dict[str, NDArray[Any]]


def record_reference(answer: Answering, raw: Raw, path: Path | str) -> str:
    """Ask the framework and write its answers to ``path``, the .npz of the contract's ``[reference]``.

    ``answer`` takes all raw values in contract units as they are given here: one array, or arrays by channel. It gives
    the outputs, or ``(outputs, tensors)``: each an array where the model has one, else arrays by tensor name. The build
    needs the tensors; without them its first half cannot be proven, and the table says so where ``tensor`` belongs.
    Equal arrays give equal bytes.

    It is asked three times: all cases, all cases again, and the first case alone. A network left in training mode
    answers otherwise the second time (Dropout) or alone (BatchNorm).

    Returns the ``[reference]`` table for the contract, as TOML.

    Raises:
        ConfigurationError: answers that change from one call to the next or with their batch, that are not finite, or
            not one for each case.
        DeviceError: the disk refuses.

    """
    path = Path(path)
    asked = {name: np.asarray(values) for name, values in (raw if isinstance(raw, Mapping) else {"": raw}).items()}
    cases = _cases(asked)
    given = _ask(answer, raw)
    for group in given:
        for name, values in group.items():
            _require_recordable(values, name, cases)
    _require_steady(given, _ask(answer, raw), "asked again, the callable", "the same answers to the same values")
    alone = _ask(answer, _first(raw))
    first = _Answered(*({name: values[:1] for name, values in group.items()} for group in given))
    _require_steady(first, alone, "asked for case 0 alone, the callable", "an answer that does not depend on its batch")
    groups = {"raw": asked, "tensor": given.tensors, "output": given.outputs}
    arrays = {
        f"{group}/{name}" if name else group: values for group, some in groups.items() for name, values in some.items()
    }
    try:
        path.write_bytes(write_arrays(arrays))
    except OSError as error:
        raise DeviceError(
            subject=str(path), found=error.strerror or str(error), expected="a place to write the reference to",
            todo="give another path",
        ) from error  # fmt: skip
    lines = [f"{group} = {_named(group, some)}" for group, some in groups.items() if some or group == "tensor"]
    return "\n".join(["[reference]", f'file = "{path.name}"', *lines]) + "\n"


def assert_parity(
    answer: Answering,
    bundle: Path | str,
    raw: Raw,
    *,
    rtol: float,
    atol: float,
    axes: Sequence[str] | None = None,
    profile: str | None = None,
) -> None:
    """Assert that the bundle's model answers as the framework does, from the same raw values in contract units.

    ``answer`` is as `record_reference` takes it; it is asked once. The bundle is booted, and its answers come through the
    line that serves on a device. An output may be off by ``atol + rtol * |framework's|``, in the tensor's own units; an
    input tensor, where the callable gives it, by what a build allows (1e-4; 1e-2 of a float16 one).

    ``raw`` is one array, ``(cases, ...)`` with ``channel`` and, with a window, ``time`` in the order that ``axes`` says
    (``("case", "channel", "time")``, the contract's ``data.axes``; left out, it is taken from the sizes where they leave
    no doubt), or arrays by channel, time first.

    Raises:
        AssertionError: a line for each tensor or output that is further off: the stage, the case, both numbers.
        BundleError: the bundle fails its own self-test on this machine.
        ConfigurationError: raw values or answers of another shape or name than the bundle has.

    """
    booted = boot(Path(bundle), make_setting(profile))
    if booted.ready is None:
        failed = booted.report.failures(frozenset({"required"}))[0]
        raise BundleError(
            subject=f"bundle {bundle}", found=f"{failed.id} failed: {failed.measured}", expected=failed.limit,
            todo=f"mend the bundle first: {failed.hint}",
        )  # fmt: skip
    model = booted.ready.model
    rows = rows_of(raw, model.manifest, axes)
    given = _ask(answer, raw)
    manifest = model.manifest
    tensors = _under_names("input tensor", given.tensors, [one.tensor for one in manifest.inputs], optional=True)
    outputs = _under_names("output", given.outputs, list(dict.fromkeys(one.tensor for one in manifest.outputs)))
    found = [*_differences(model, rows, tensors, outputs, rtol=rtol, atol=atol)]
    if found:
        head = f"{bundle}, variant {model.variant.name}: not what the framework answers"
        raise AssertionError("\n".join([head, *(f"- {line}" for line in found)]))


def _differences(
    model: Model,
    rows: NDArray[np.float64],
    tensors: Mapping[str, NDArray[Any]],
    outputs: Mapping[str, NDArray[Any]],
    *,
    rtol: float,
    atol: float,
) -> Iterator[str]:
    manifest = model.manifest
    channels = manifest.channels
    units = tuple(channel.unit if channel.form == "number" else "1" for channel in channels)
    cases = Goldens(
        channels=tuple(channel.name for channel in channels), raw=rows, units=(units,) * len(rows),
        tensors={}, outputs={}, references={}, answers={}, answer_units={}, flags={},
    )  # fmt: skip
    size = max(one for one in manifest.batch_sizes if one <= max(1, len(rows)))
    try:
        passed = passage(model, cases, size)
    except BundleError as refusal:
        case = refusal.subject.removeprefix("golden ")
        yield f"stage contract: {case} is {refusal.found}; the framework was never to see it"
        return
    kinds = {one.tensor: one.dtype for one in manifest.inputs}
    for name, theirs in tensors.items():
        limit = _FLOAT16_LIMIT if kinds[name] == "float16" else LIMIT
        yield from _beyond(f"stage tensor, input {name}", passed.tensors[name][: len(rows)], theirs, 0.0, limit, None)
    for name, theirs in outputs.items():
        shown = next(one for one in manifest.outputs if one.tensor == name)
        yield from _beyond(f"stage output, {name}", passed.outputs[name][: len(rows)], theirs, rtol, atol, shown)


def _beyond(
    stage: str, ours: NDArray[Any], theirs: NDArray[Any], rtol: float, atol: float, output: Output | None
) -> Iterator[str]:
    """A line where the framework's numbers and the bundle's are too far apart, about the worst case."""
    if ours.size != theirs.size or len(ours) != len(theirs):
        yield f"{stage}: the callable gave shape {theirs.shape}, the bundle has {ours.shape}"
        return
    theirs = theirs.reshape(ours.shape)
    if theirs.dtype.kind in "OU" or ours.dtype.kind in "OU":
        wrong = np.flatnonzero((ours.astype(str) != theirs.astype(str)).reshape(len(ours), -1).any(axis=1))
        if wrong.size:
            row = int(wrong[0])
            yield f"{stage}: {wrong.size} of {len(ours)} texts differ, case {row}: {ours[row]!r}, framework {theirs[row]!r}"
        return
    numbers, wanted = ours.astype(np.float64), theirs.astype(np.float64)
    off = np.abs(numbers - wanted)
    over = np.where(np.isnan(numbers) & np.isnan(wanted), -np.inf, off - (atol + rtol * np.abs(wanted)))
    over[np.isnan(over)] = np.inf  # a NaN on one side is not within anything
    by_case = over.reshape(len(ours), -1).max(axis=1, initial=-np.inf)
    if not (by_case > 0).any():
        return
    at = np.unravel_index(int(over.argmax()), over.shape)
    place = f"[{', '.join(str(int(one)) for one in at[1:])}]" if over[0].size > 1 else ""
    yield (
        f"{stage}{place}: case {int(at[0])} is {off[at]:.3g} off{_in_unit(output, float(off[at]))}: bundle "
        f"{numbers[at]:.6g}, framework {wanted[at]:.6g}; allowed {atol:g}"
        + (f" + {rtol:g} * |framework's|" if rtol else "")
        + f"; beyond in {int((by_case > 0).sum())} of {len(ours)} cases"
    )


def _in_unit(output: Output | None, off: float) -> str:
    """The same difference as the reader of the answer has it."""
    if output is None or not output.postprocess or output.form != "number":
        return ""
    if not all(isinstance(step, Destandardize) for step in output.postprocess):
        return ""
    scale = float(np.prod([step.std for step in output.postprocess if isinstance(step, Destandardize)]))
    return f" ({off * scale:.3g} {output.unit} in the answer)"


def _ask(answer: Answering, raw: Raw) -> _Answered:
    given = answer(raw)
    outputs, tensors = given if isinstance(given, tuple) and len(given) == 2 else (given, {})  # noqa: PLR2004 - the pair
    return _Answered(_arrays(outputs), _arrays(tensors))


def _arrays(given: Any) -> dict[str, NDArray[Any]]:
    if isinstance(given, Mapping):
        return {str(name): _array(values) for name, values in given.items()}
    return {"": _array(given)}


def _array(values: Any) -> NDArray[Any]:
    """A framework's tensor as an array: off its graph, off its device."""
    for step in ("detach", "cpu", "numpy"):
        if hasattr(values, step) and not isinstance(values, np.ndarray):
            values = getattr(values, step)()
    return np.asarray(values)


def _cases(asked: Mapping[str, NDArray[Any]]) -> int:
    counts = {len(values) if values.ndim else 0 for values in asked.values()}
    if len(counts) != 1 or 0 in counts:
        raise ConfigurationError(
            subject="raw", found=f"{', '.join(map(str, sorted(counts))) or 'no'} cases", expected="the same, one or more",
            todo="give arrays with the cases first",
        )  # fmt: skip
    return counts.pop()


def _first(raw: Raw) -> Raw:
    if isinstance(raw, Mapping):
        return {name: values[:1] for name, values in raw.items()}
    return raw[:1]


def _require_recordable(values: NDArray[Any], name: str, cases: int) -> None:
    shown = name or "the callable's answer"
    good = values.ndim >= 1 and len(values) == cases and values.dtype.kind in "biufU"
    if not good:
        raise ConfigurationError(
            subject=shown, found=f"{values.dtype} of shape {values.shape}", expected=f"numbers or texts, {cases} cases first",
            todo="give an array with one row for each case",
        )  # fmt: skip
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ConfigurationError(
            subject=shown, found="an infinite number", expected="finite ones", todo="leave such cases out"
        )


def _require_steady(one: _Answered, other: _Answered, subject: str, expected: str) -> None:
    for what, before, after in (("output", one.outputs, other.outputs), ("tensor", one.tensors, other.tensors)):
        for name, values in before.items():
            found = _changed(values, after.get(name))
            if found:
                raise ConfigurationError(
                    subject=f"{subject}, {what} {name}".rstrip(), found=found, expected=expected,
                    todo="put the network into evaluation mode (torch: model.eval()), and let it draw nothing at random",
                )  # fmt: skip


def _changed(values: NDArray[Any], again: NDArray[Any] | None) -> str:
    """In words how the second answer differs from the first; nothing where it does not."""
    if again is None or again.shape != values.shape:
        return "another shape or name"
    if values.dtype.kind != "f":
        return "" if (values == again).all() else "other values"
    numbers, other = values.astype(np.float64), again.astype(np.float64)
    off = np.abs(numbers - other)
    same = (np.isnan(numbers) & np.isnan(other)) | (off <= LIMIT * np.maximum(1.0, np.abs(numbers)))
    return "" if same.all() else f"{float(np.nan_to_num(off, nan=np.inf)[~same].max()):.3g} off"


def _under_names(
    what: str, given: Mapping[str, NDArray[Any]], wanted: list[str], *, optional: bool = False
) -> dict[str, NDArray[Any]]:
    """What the callable gave under the bundle's names; an only one needs none."""
    if set(given) == {""} and len(wanted) == 1:
        return {wanted[0]: given[""]}
    if set(given) == set(wanted) or (optional and set(given) <= set(wanted)):
        return dict(given)
    raise ConfigurationError(
        subject=f"the callable, {what}s", found=", ".join(name or "one without a name" for name in given) or "none",
        expected=", ".join(wanted), todo="give a dict from the model's own names to arrays",
    )  # fmt: skip


def _named(group: str, some: Mapping[str, NDArray[Any]]) -> str:
    if not some:
        return f'"TODO"  # a build needs it: {TENSOR_WAY}'
    if set(some) == {""}:
        return f'"{group}"'
    return "{ " + ", ".join(f'"{name}" = "{group}/{name}"' for name in sorted(some)) + " }"
