"""Judges one reading against the contract: units resolved once, three bands, nothing missing; it repairs nothing."""

from collections.abc import Mapping, Sequence
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_runtime.errors import ConfigurationError
from edge_runtime.flow.contract_array import categorised, converted, taken_as_is
from edge_runtime.flow.contract_binding import check_read, conversion_words, grid_conversion
from edge_runtime.flow.misreading import converted_twice, other_byte_order
from edge_runtime.flow.window import Stream
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.reading import Reading, Rejection, Value
from edge_runtime.spec.result import (
    ASSUMED_UNIT,
    BEYOND_TOLERATED,
    CONVERTED,
    EXTRAPOLATING,
    FILLED,
    HELD,
    MISSING,
)
from edge_runtime.spec.units import UnitMismatch, UnitUnknown, Vocabulary, conversion, fitting, resolve

# Sets of unit texts, one a payload, are remembered up to this many: a hostile stream cannot fill the memory with them.
MAX_REMEMBERED_UNITS = 256

# A number this little beyond its band, as a share of it, is likely in the right unit: a sensor out of adjustment, or a tight band.
_NEAR = 0.1


class Judged(NamedTuple):
    """A sample that may enter a window: its row of float64 numbers in contract units, and flag bits.

    ``held`` are the places in the row whose number is an older one, held.
    """

    values: tuple[float, ...] | NDArray[np.float64]
    flags: int
    held: tuple[int, ...] = ()

    def with_held(self, columns: tuple[int, ...]) -> "Judged":
        """The same, with the numbers at ``columns`` older ones that were held too."""
        return self._replace(flags=self.flags | HELD, held=self.held + columns) if columns else self


class _Rule(NamedTuple):
    """How one channel's number becomes contract units (``a * x + b``) and the bands it is held against."""

    a: float
    b: float
    trained_min: float
    trained_max: float
    tolerated_min: float
    tolerated_max: float
    physical_min: float
    physical_max: float
    flags: int
    declared: str


class Contract:
    """The channels of a bundle and how one binding delivers them; made once at boot.

    ``conversions`` says in words, per channel, what happens to its number.
    """

    __slots__ = (
        "_channels",
        "_corrections",
        "_grids",
        "_is_plain",
        "_is_record",
        "_remembered",
        "_rules",
        "_unit_maps",
        "_vocabularies",
        "conversions",
    )

    def __init__(
        self, channels: Sequence[Channel], bindings: Mapping[str, ChannelBinding], *, is_paired: bool = False
    ) -> None:
        """Resolve every unit; raises ConfigurationError where a binding does not suit its channel.

        ``is_paired``: whoever gives a number gives its unit with it, so that one which is not there lacks no unit.
        """
        self._channels = tuple(channels)
        bound = [bindings[channel.name] for channel in channels]
        for channel, binding in zip(channels, bound, strict=True):
            check_read(channel, binding)
        self._grids = tuple(grid_conversion(*pair) for pair in zip(channels, bound, strict=True))
        self._vocabularies: tuple[Vocabulary, ...] = tuple(binding.vocabulary for binding in bound)
        self._corrections = tuple(
            (binding.correction.a, binding.correction.b) if binding.correction else (1.0, 0.0) for binding in bound
        )
        self._is_record = tuple(
            binding.unit_field is not None and (is_paired or binding.vocabulary == "senml") for binding in bound
        )
        self._unit_maps = tuple(binding.unit_map for binding in bound)
        # Numbers that must all be there, as most contracts have: one tight loop.
        self._is_plain = all(
            channel.form == "number" and not channel.shape and channel.when_missing == "refuse" for channel in channels
        )
        self._rules = tuple(self._static_rule(index, binding) for index, binding in enumerate(bound))
        for index, binding in enumerate(bound):
            for unit in (binding.unit_map or {}).values():
                self._configured_rule(index, unit, "unit_map")
        self._remembered: dict[tuple[str | None, ...], tuple[_Rule | Rejection, ...]] = {}
        self.conversions = tuple(
            conversion_words(channel, binding, _words(channel, binding, rule), grid)
            for channel, binding, rule, grid in zip(channels, bound, self._rules, self._grids, strict=True)
        )

    def judge(self, reading: Reading, stream: Stream | None = None, time_ns: int = 0) -> Judged | Rejection:
        """Convert and check one reading; the first channel that fails decides.

        ``stream`` is what the reading belongs to and ``time_ns`` its time, for channels that hold their last number.
        """
        rules = self._rules if reading.units is None else self._rules_of(reading.units)
        if not self._is_plain:
            return self._judge_any(reading.values, rules, stream, time_ns)
        values: list[float] = []
        flags = 0
        for value, rule in zip(reading.values, rules, strict=True):
            if (type(value) is not float and type(value) is not int) or type(rule) is not _Rule:
                return self._refused(len(values), value, rule)
            a, b, trained_min, trained_max, tolerated_min, tolerated_max, physical_min, physical_max, bits, _ = rule
            y = a * value + b
            flags |= bits
            if not trained_min <= y <= trained_max:
                if tolerated_min <= y <= tolerated_max:
                    flags |= EXTRAPOLATING
                elif physical_min <= y <= physical_max:
                    flags |= EXTRAPOLATING | BEYOND_TOLERATED
                else:  # NaN lands here too
                    return self._refused(len(values), value, rule)
            values.append(y)
        return Judged(tuple(values), flags)

    def conversions_of(self, units: tuple[str | None, ...] | None) -> tuple[tuple[str, float, float] | None, ...]:
        """Per channel the unit (UCUM) its number comes in, and ``a`` and ``b`` of ``y = a*x + b``, the correction within.

        ``units`` are a reading's; None where there is no unit, or one that does not convert.
        """
        rules = self._rules if units is None else self._rules_of(units)
        return tuple(
            None if isinstance(rule, Rejection) or channel.form != "number" else (rule.declared, rule.a, rule.b)
            for rule, channel in zip(rules, self._channels, strict=True)
        )

    def columns(self, places: Sequence[int]) -> tuple[int, ...]:
        """Where in a row the single numbers of these channels stand, each channel by its place among the channels."""
        widths = [channel.width for channel in self._channels]
        return tuple(sum(widths[:place]) for place in places)

    def refuses(self, index: int, value: Value, unit: str | None) -> Rejection | None:
        """Why one channel's single value would be refused in a reading whose payload named ``unit``, if it would be."""
        units = tuple(unit if at == index else None for at in range(len(self._channels)))
        rule = (self._rules if unit is None else self._rules_of(units))[index]
        if isinstance(rule, Rejection):
            return rule
        judged, _ = self._one(index, value, rule)
        return judged if isinstance(judged, Rejection) else None

    def _judge_any(
        self, given: Sequence[Value], rules: Sequence[_Rule | Rejection], stream: Stream | None, time_ns: int
    ) -> Judged | Rejection:
        """The same for channels of every form: arrays, categories, numbers that may be missing."""
        parts: list[float | NDArray[np.float64]] = []
        held: list[int] = []
        flags = column = 0
        for index, (value, rule, channel) in enumerate(zip(given, rules, self._channels, strict=True)):
            if isinstance(rule, Rejection):
                rule = self._without_unit(index, value, rule)  # noqa: PLW2901
            if isinstance(rule, Rejection):
                return rule
            part: float | NDArray[np.float64] | Rejection | None
            if value is None and channel.when_missing != "refuse":
                part = self._instead(channel, column, stream, time_ns)
                if part is not None and channel.when_missing == "hold":
                    held.append(column)
                bits = {"hold": HELD, "fill": FILLED, "pass": MISSING}[channel.when_missing]
            else:
                part, bits = self._one(index, value, rule)
            if isinstance(part, Rejection):
                return part
            if part is None:
                return self._refused(index, None, rule)
            flags |= bits
            parts.append(part)
            column += channel.width
        if any(channel.shape for channel in self._channels):
            return Judged(np.concatenate([np.atleast_1d(part) for part in parts]), flags, tuple(held))
        return Judged(tuple(parts), flags, tuple(held))  # type: ignore[arg-type]  # without a shape all are floats

    def _one(self, index: int, value: Any, rule: _Rule) -> tuple[float | NDArray[np.float64] | Rejection, int]:
        """One channel's number or array in contract units, with its flag bits, or why not."""
        channel = self._channels[index]
        if channel.form == "category":
            return categorised(channel, value), 0
        if channel.form == "opaque":
            taken = taken_as_is(channel, value)
            return (taken if channel.shape or isinstance(taken, Rejection) else taken.item()), 0
        if channel.shape:
            return converted(channel, value, rule.a, rule.b, rule.flags, *self._grids[index])
        if type(value) in (float, int):
            y = rule.a * value + rule.b
            if rule.trained_min <= y <= rule.trained_max:
                return y, rule.flags
            if rule.physical_min <= y <= rule.physical_max:
                is_tolerated = rule.tolerated_min <= y <= rule.tolerated_max
                return y, rule.flags | EXTRAPOLATING | (0 if is_tolerated else BEYOND_TOLERATED)
        return self._refused(index, value, rule), 0

    def _instead(self, channel: Channel, column: int, stream: Stream | None, time_ns: int) -> float | None:
        """What stands for a missing number by the channel's policy; None where even that is not there."""
        if channel.when_missing == "fill":
            return channel.fill
        if channel.when_missing == "pass":
            return nan
        return stream.held(column, time_ns, round((channel.hold_s or 0.0) * 1e9)) if stream else None

    def _static_rule(self, index: int, binding: ChannelBinding) -> _Rule | Rejection:
        if self._channels[index].form != "number":
            return _Rule(1.0, 0.0, -inf, inf, -inf, inf, -inf, inf, 0, "1")
        if binding.unit is None:
            return self._undeclared(index)
        return self._configured_rule(index, binding.unit, "unit")

    def _configured_rule(self, index: int, unit: str, key: str) -> _Rule:
        try:
            return self._rule(index, unit)
        except (UnitUnknown, UnitMismatch) as error:
            channel = self._channels[index]
            raise ConfigurationError(
                subject=f"channel {channel.name}, {key}", found=repr(unit),
                expected=f"a unit that converts to {channel.unit}", todo=str(error),
            ) from error  # fmt: skip

    def _undeclared(self, index: int) -> _Rule | Rejection:
        channel = self._channels[index]
        if channel.when_undeclared == "assume":
            rule = self._rule(index, None)
            return rule._replace(flags=rule.flags | ASSUMED_UNIT)
        return Rejection(
            "undeclared_unit", f"channel {channel.name}", "no declared unit", "the unit its numbers are in",
            f"declare what the sender sends in device.toml, e.g. channels.{channel.name}.unit ="
            f' "{channel.unit}" where it is {channel.unit}',
        )  # fmt: skip

    def _map_todo(self, index: int, text: str) -> str:
        if self._vocabularies[index] == "senml" or self._unit_maps[index] is not None:
            return ""
        return f"; or say what the sender means by {text[:40]!r} in channels.{self._channels[index].name}.unit_map"

    def _without_unit(self, index: int, value: Any, refused: Rejection) -> _Rule | Rejection:
        """Unit and number are one record in SenML: where it is not there, it is missing, and not without a unit."""
        is_missing = value is None and self._is_record[index] and refused.reason == "undeclared_unit"
        return self._rule(index, None) if is_missing else refused

    def _rule(self, index: int, text: str | None) -> _Rule:
        channel = self._channels[index]
        want = resolve(channel.unit)
        have = want if text is None else resolve(text, self._vocabularies[index])
        a, b = conversion(have, want, channel.kind)
        correct_a, correct_b = self._corrections[index]
        trained, tolerated, physical = channel.bands
        return _Rule(
            a * correct_a, a * correct_b + b, trained.min, trained.max, tolerated.min, tolerated.max,
            physical.min, physical.max, CONVERTED if (a, b) != (1.0, 0.0) else 0, have.code,
        )  # fmt: skip

    def _rules_of(self, units: tuple[str | None, ...]) -> tuple[_Rule | Rejection, ...]:
        rules = self._remembered.get(units)
        if rules is None:
            rules = tuple(
                self._rules[index] if text is None else self._learn(index, text) for index, text in enumerate(units)
            )
            if len(self._remembered) < MAX_REMEMBERED_UNITS:
                self._remembered[units] = rules
        return rules

    def _learn(self, index: int, text: str) -> _Rule | Rejection:
        channel = self._channels[index]
        if channel.form != "number":
            return self._rules[index]
        meanings = self._unit_maps[index]
        if meanings is not None and text not in meanings:
            return Rejection(
                "unknown_unit", f"channel {channel.name}", f"unit {text[:40]!r}", f"{' or '.join(map(repr, meanings))}",
                f"say what it means in channels.{channel.name}.unit_map",
            )  # fmt: skip
        rule: _Rule | Rejection
        try:
            rule = self._rule(index, text if meanings is None else meanings[text])
        except UnitUnknown as error:
            rule = Rejection(
                "unknown_unit", f"channel {channel.name}", f"unit {text[:40]!r}", f"a known unit of {channel.unit}'s kind",
                f"{error}{self._map_todo(index, text)}",
            )  # fmt: skip
        except UnitMismatch as error:
            rule = Rejection(
                "wrong_dimension", f"channel {channel.name}", f"unit {text[:40]!r}", f"a unit that converts to {channel.unit}",
                str(error),
            )  # fmt: skip
        return rule

    def _refused(self, index: int, value: Any, rule: _Rule | Rejection) -> Rejection:
        channel = self._channels[index]
        if isinstance(rule, Rejection):
            rule = self._without_unit(index, value, rule)
        if isinstance(rule, Rejection):
            return rule
        subject = f"channel {channel.name}"
        if value is None:
            wanted = {"number": f"a number in {rule.declared}", "category": "one of its categories"}
            return Rejection(
                "missing", subject, "no value", wanted.get(channel.form, "a number"), "check the sensor and its cable"
            )
        if type(value) not in (float, int):
            return Rejection("not_a_number", subject, repr(value)[:60], "a number", "check how the channel is bound")
        if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN is what differs from itself
            return Rejection("not_finite", subject, str(value), "a finite number", "check the sensor and its cable")
        converted = rule.a * value + rule.b
        assumed = "assumed " if rule.flags & ASSUMED_UNIT else ""
        found = f"{value:.6g} ({assumed}{rule.declared})"
        if rule.flags & CONVERTED:
            found += f", which is {converted:.6g} {channel.unit}"
        expected = f"{rule.physical_min:g} to {rule.physical_max:g} {channel.unit}"
        return Rejection("beyond_physical", subject, found, expected, self._hint(index, value, rule))

    def _hint(self, index: int, value: float, rule: _Rule) -> str:
        channel = self._channels[index]
        margin = _NEAR * (rule.physical_max - rule.physical_min)
        is_assumed = bool(rule.flags & ASSUMED_UNIT)
        is_near = rule.physical_min - margin <= rule.a * value + rule.b <= rule.physical_max + margin
        correct_a, correct_b = self._corrections[index]
        raw = correct_a * value + correct_b
        codes = fitting(
            resolve(channel.unit), [raw], rule.tolerated_min, rule.tolerated_max, channel.kind
        )  # fmt: skip
        fits = [code for code in codes if code != rule.declared]
        if rule.declared != channel.unit and rule.tolerated_min <= raw <= rule.tolerated_max:
            fits.insert(2, channel.unit)
        units = " or ".join(fits[:3])
        # Where somebody stated the unit, a little too much is first a sensor that is off; where nobody did, it may be the unit.
        if is_near and not (is_assumed and fits):
            also = f"; or its unit, for the value fits {units}" if fits else ""
            return f"little beyond the end of the band: check the sensor's calibration{also}"
        if not fits:
            return _misread(channel, value, rule)
        if is_assumed:
            return f'the value fits {units}: declare it, e.g. channels.{channel.name}.unit = "{fits[0]}"'
        return f"the value fits {units}: check what the sensor is set to"


def _misread(channel: Channel, value: float, rule: _Rule) -> str:
    """A hint for a number that fits no unit of its kind."""
    band = rule.a, rule.b, rule.tolerated_min, rule.tolerated_max
    turned = other_byte_order(value, *band)
    if turned is not None:
        return (
            f"with its bytes in another order it is {turned:g} {rule.declared}: "
            "correct the byte order where registers are read"
        )
    once = converted_twice(value, rule.declared, *band, channel.kind)
    if once is not None:
        return (
            f"it fits if it was converted to {rule.declared} twice: {once:g} {rule.declared} is "
            f"{rule.a * once + rule.b:.6g} {channel.unit}; convert in one place only"
        )
    return "check the sensor and its cable"


def _words(channel: Channel, binding: ChannelBinding, rule: _Rule | Rejection) -> str:
    """What happens to the unit of a number."""
    if isinstance(rule, Rejection):
        return "unit read from the payload" if binding.unit_field else "undeclared: refused at the first sample"
    origin = "assumed " if rule.flags & ASSUMED_UNIT else ""
    return f"{origin}{rule.declared} -> {channel.unit} (x * {rule.a!r} + {rule.b!r})"
