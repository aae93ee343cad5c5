"""Whether the parts of a contract fit together, key by key, before any file is opened; it raises nothing and sees no model."""

from collections.abc import Iterator
from pathlib import Path

from edge_runtime.author.contract import ArrayNames, Contract, ContractChannel
from edge_runtime.author.mistake import unknown_key
from edge_runtime.errors import ConfigurationError
from edge_runtime.spec.units import UnitMismatch, UnitUnknown, conversion, resolve


def misfits(contract: Contract, path: Path) -> Iterator[ConfigurationError]:
    """Every part of a contract that does not fit the others, as an error that names the file and the key."""
    for at, one in enumerate(contract.input):
        yield from _of_axes(contract, one.axes, f"{path}, input.{at}.axes")
        for number, channel in enumerate(one.channel):
            yield from _of_channel(channel, f"{path}, input.{at}.channel.{number}")
    for at, output in enumerate(contract.output):
        yield from _of_unit(output.unit, f"{path}, output.{at}.unit")
    yield from _of_tensor_names(contract, path)
    yield from _of_data(contract, path)
    yield from _of_goldens(contract, path)
    yield from _of_variants(contract, path)
    yield from _of_gates(contract, path)


def _of_channel(channel: ContractChannel, subject: str) -> Iterator[ConfigurationError]:
    if channel.form == "number":
        for key in ("unit", "tolerated", "physical"):
            if getattr(channel, key) is None:
                meant = "the unit its values are in, '1' for none" if key == "unit" else "[lowest, highest]"
                yield ConfigurationError(
                    subject=f"{subject}.{key}", found="nothing", expected=meant,
                    todo="correct it; docs/contract.md lists every key",
                )  # fmt: skip
    if channel.unit is not None:
        yield from _of_unit(channel.unit, f"{subject}.unit")
    yield from _of_unit(channel.grid_unit, f"{subject}.grid_unit")
    if channel.unknown is not None and channel.unknown not in channel.categories:
        yield ConfigurationError(
            subject=f"{subject}.unknown", found=repr(channel.unknown), expected="one of its categories",
            todo="correct it, or add it to the categories",
        )  # fmt: skip


def _of_axes(contract: Contract, axes: tuple[str, ...], subject: str) -> Iterator[ConfigurationError]:
    if axes[:1] != ("batch",) or len(axes) < 2:  # noqa: PLR2004 - the batch and what is in it
        yield ConfigurationError(
            subject=subject, found=str(list(axes)), todo="name the model's axes in order",
            expected="'batch' first, then 'channel' and, with a window, 'time'; or 'point', 'row', 'column', 'colour'",
        )  # fmt: skip
    if "time" in axes and contract.window is None:
        yield ConfigurationError(
            subject=f"{subject.partition(', ')[0]}, window", found="no [window]",
            expected="one where an input's axes have 'time'", todo="add it, or take 'time' out of the axes",
        )  # fmt: skip


def _of_tensor_names(contract: Contract, path: Path) -> Iterator[ConfigurationError]:
    unnamed = [at for at, one in enumerate(contract.input) if one.tensor is None]
    if unnamed and (len(contract.input) > 1 or contract.state):
        yield ConfigurationError(
            subject=f"{path}, input.{unnamed[0]}.tensor", found="nothing",
            expected="the name of the model's input, since it has several", todo="add it",
        )  # fmt: skip
    if contract.preprocess_onnx and any(one.preprocess for one in contract.input):
        yield ConfigurationError(
            subject=f"{path}, preprocess_onnx", found="steps beside it", expected="one of the two",
            todo="take the [[input.preprocess]] out, or the [preprocess_onnx]",
        )  # fmt: skip


def _of_data(contract: Contract, path: Path) -> Iterator[ConfigurationError]:
    parts = {"train": contract.data.train, "validation": contract.data.validation, "test": contract.data.test}
    named = {f"data.{key}.values": part.values for key, part in parts.items() if part}
    named["reference.raw"] = contract.reference.raw
    names = {channel.name for channel in contract.channels}
    for key, value in named.items():
        yield from _of_table(value, names, f"{path}, {key}")
    outputs = {output.name for output in contract.output}
    for key, part in parts.items():
        if part and part.target is not None:
            for name in set(_keys(part.target)) - outputs:
                yield unknown_key(f"{path}, data.{key}.target.{name}", name, outputs)
    if is_stacked(contract, contract.data.train.values) or is_stacked(contract, contract.reference.raw):
        axes = ["case", "channel", "time"] if contract.has_time else ["case", "channel"]
        if contract.data.axes[:1] != ("case",) or sorted(contract.data.axes) != axes:
            yield ConfigurationError(
                subject=f"{path}, data.axes", found=str(list(contract.data.axes)),
                expected="'case' first, then 'channel' and, where a case is several samples, 'time'",
                todo="name the arrays' axes in order",
            )  # fmt: skip


def is_stacked(contract: Contract, named: ArrayNames) -> bool:
    """Whether ``named`` is one array with an axis of channels; a contract with a single array or text has none."""
    only = contract.channels[0] if len(contract.channels) == 1 else None
    return isinstance(named, str) and not (only is not None and (only.shape or only.form == "category"))


def _of_table(named: ArrayNames, names: set[str], subject: str) -> Iterator[ConfigurationError]:
    if isinstance(named, str):
        return
    unknown = [unknown_key(f"{subject}.{name}", name, names) for name in named if name not in names]
    yield from unknown
    absent = sorted(names - set(named))
    if absent and not unknown:  # a misspelt name is absent under its right one too
        yield ConfigurationError(
            subject=subject, found=f"no array for {absent[0]}", expected="one for each channel", todo="add it",
        )  # fmt: skip


def _keys(named: ArrayNames) -> Iterator[str]:
    if not isinstance(named, str):
        yield from named


def _of_goldens(contract: Contract, path: Path) -> Iterator[ConfigurationError]:
    known = {channel.name: channel.unit for channel in contract.channels if channel.form == "number"}
    for name, units in contract.goldens.units.items():
        own = known.get(name)
        if own is None:
            yield unknown_key(f"{path}, goldens.units.{name}", name, set(known))
            continue
        if any(_of_unit(own, "")):
            continue  # told with the channel itself: until that is written, nothing can be held against it
        for unit in units:
            yield from _of_unit(unit, f"{path}, goldens.units.{name}", like=own)
        if units[0] != own:
            yield ConfigurationError(
                subject=f"{path}, goldens.units.{name}", found=f"{units[0]!r} first",
                expected=f"{own!r} first, the contract's", todo="reorder or complete the list",
            )  # fmt: skip
    samples, window = contract.goldens.samples, contract.window
    if samples is None:
        return
    length, hop = (window.length, window.hop) if window else (1, 1)
    if not contract.state or samples < length or (samples - length) % hop:
        yield ConfigurationError(
            subject=f"{path}, goldens.samples", found=str(samples),
            expected=f"only with a [[state]], and {length} or a multiple of {hop} more",
            todo="correct or remove it",
        )  # fmt: skip


def _of_variants(contract: Contract, path: Path) -> Iterator[ConfigurationError]:
    names = [variant.name for variant in contract.variants]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        yield ConfigurationError(
            subject=f"{path}, variant", found=f"two called {twice}", todo="give one another name",
            expected=f"names of their own; {names[0]} is the contract's own model",
        )  # fmt: skip


def _of_gates(contract: Contract, path: Path) -> Iterator[ConfigurationError]:
    if contract.precision == "auto" and contract.gates is None:
        yield ConfigurationError(
            subject=f"{path}, precision", found="'auto' without [gates]", expected="[gates] to choose by",
            todo="add [[gates.accept]] with an output, its metric and the allowed loss",
        )  # fmt: skip
    if contract.gates is not None and contract.data.validation is None:
        yield ConfigurationError(
            subject=f"{path}, gates", found="no data.validation", expected="validation data to judge by",
            todo="add data.validation, with what was true; test data are for the report alone",
        )  # fmt: skip


def _of_unit(unit: str, subject: str, like: str | None = None) -> Iterator[ConfigurationError]:
    try:
        found = resolve(unit)
        if like is not None:
            conversion(found, resolve(like))
    except UnitUnknown as error:
        yield ConfigurationError(
            subject=subject, found=f"{unit[:40]!r}", expected=f"a UCUM unit ({error.hint})",
            todo="write it as docs/units.md does",
        )  # fmt: skip
    except UnitMismatch as error:
        yield ConfigurationError(
            subject=subject, found=f"{unit!r} ({error})", expected=f"a unit that converts to {like}",
            todo="correct or remove it",
        )  # fmt: skip
