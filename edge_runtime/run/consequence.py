"""What a difference between two contracts means for a line that is bound to the first one; it compares nothing itself."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from edge_runtime.spec.frozen import Band
from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.units import UnitMismatch, UnitUnknown, conversion, resolve

Path = tuple[str, ...]

# The parts of a contract that have names of their own, and what one of them is called.
NAMED: Final[Mapping[str, str]] = {
    "channels": "channel", "inputs": "input", "outputs": "output", "variants": "variant", "state": "state",
    "negative_goldens": "negative golden",
}  # fmt: skip
# No name can hold parentheses, so that nothing an author calls a channel is taken for it.
ORDER_KEY: Final = "(order)"

_FIXED: Final[Mapping[str, str]] = {
    "id": "another model by name: the floor against older bundles and the last pass are kept by id, so B begins with none",
    "must_understand": "an edge-runtime that does not know one of these refuses B",
    "input": "nothing for a line: the channel goes to another tensor of the model",
    "form": "the value sent must be of another kind",
    "shape": "samples of the old shape are refused as wrong_shape",
    "categories": "a word that is gone is refused as unknown_category, unless `unknown` takes it",
    "dtype": "numbers that the new dtype cannot hold are refused as beyond_dtype",
    "grid": "spectra on the old grid are refused as other_grid, or resampled where the contract says so",
    "grid_unit": "the sender's places must be in the new unit",
    "other_grid": "spectra on another grid are now refused, or now resampled and flagged",
    "kind": "converted with, or without, the offset from now on: a difference is no point",
    "when_missing": "samples without this value are treated otherwise from now on",
    "hold_s": "a missing value is held for another time",
    "fill": "a missing value is filled with another constant",
    "stuck_after": "'stuck' is flagged sooner or later than before",
    "unknown": "unknown words are treated otherwise from now on",
    "trained": "'extrapolating' is flagged at other values",
    "tolerated": "'beyond_tolerated' is flagged at other values",
    "hop": "answers come more, or less, often",
    "plausibility": "'step', 'shifted', 'drifted' or 'constant' are flagged at other values, or no longer",
    "rate_tolerance": "'rate_off' is flagged at another pace",
    "gap": "windows over a missing sample are treated otherwise",
    "steps": "other numbers reach the model from the same sample; the goldens of B prove them at boot",
    "preprocess_onnx": "other numbers reach the model from the same sample; the goldens of B prove them at boot",
    "labels": "readers of the answers get other words: correct whatever compares them",
    "flags": "the flag comes on or goes off at other values, or is new or gone: correct whatever listens to it",
    "postprocess": "the model's number becomes the answer in another way",
    "column": "the answer is another number of the model's row",
    "meaning": "readers of the answers must be told",
    "batch_sizes": "the self-test proves other batch sizes; a busy line runs in these",
    "tolerances": "the self-test allows the model's outputs to be off by more, or by less",
    "negative_goldens": "the self-test plants other faults",
    "latency_p99_ms": "the check `latency` has another limit: beyond it a device does not serve",
    "memory_mb": "so much must be free where it is loaded (`headroom`), and `memory` has another limit",
    "state": "what a stream remembers begins anew with B",
    "isa": "B may not fit this processor: `edge-runtime selftest --bundle B` says so",
    "opsets": "B may need another onnxruntime: `edge-runtime selftest --bundle B` says so",
    "ir_version": "B may need another onnxruntime: `edge-runtime selftest --bundle B` says so",
    "precision": "answers differ in their last digits at least; see the metrics",
    "input_clip": "'clipped' is flagged at other values",
    "output_scale": "'clipped' is flagged at other values, and the steps of an int8 answer are others",
    "variants": "another model file: the self-test of B proves it on this device",
    "inputs": "nothing for a line by itself: the tensor is made from the channels",
    "provenance": "nothing for a line; it says where the model comes from",
}  # fmt: skip


def consequence(path: Path, was: Any, is_now: Any, a: Manifest, b: Manifest) -> str:
    """One sentence for the difference at ``path``, whose values are ``was`` and ``is_now``, None where absent."""
    special: str | None = None
    match path:
        case ("security_version",):
            special = _security(was, is_now)
        case ("channels", name, *field):
            special = _channel(name, field, was, is_now, a)
        case ("outputs", name, *field):
            special = _output(name, field, was)
        case ("window", *field):
            special = _window(field, is_now, b)
        case ("variants", order) if order == ORDER_KEY:
            special = "the first variant that suits a device is taken: it may be another one now"
    return special or _general(path)


def _channel(  # noqa: PLR0911 - one sentence a case
    name: str, field: Sequence[str], was: Any, is_now: Any, a: Manifest
) -> str | None:
    match field:
        case [] if name == ORDER_KEY:
            return "nothing for a line: channels are bound by name; whoever feeds the tensors by hand must follow"
        case [] if was is None:
            return f"device.toml must bind it: [line.channels] {name}, or the boot refuses the line (bindings)"
        case []:
            return (
                f"device.toml must no longer bind it: remove {name} from [line.channels], or the boot refuses the line"
            )
        case ["unit"]:
            return _unit(was, is_now, _kind(a, name))
        case ["physical"] if was and is_now:
            return _physical(was, is_now)
        case ["when_undeclared"]:
            return _undeclared(is_now)
    return None


def _output(name: str, field: Sequence[str], was: Any) -> str | None:
    match field:
        case [] if name != ORDER_KEY:
            return f"readers of the answers get {'a new key' if was is None else 'no key'} {name!r}"
        case ["form"]:
            return "readers of the answers get another kind of value"
        case ["unit"]:
            return "readers of the answers get numbers in another unit: correct whatever compares them with a limit"
    return None


def _window(field: Sequence[str], is_now: Any, b: Manifest) -> str | None:
    match field:
        case [] | ["length"]:
            return f"the first answer of a stream comes with its sample {b.length}; a window begun under A is not carried on"
        case ["period_s"] if is_now is None:
            return "pace and gaps are no longer checked"
        case ["period_s"]:
            return "the sender must keep the new pace; at the old one windows are refused as gap"
        case ["order"]:
            return "nothing for a line: the window is turned round before the model sees it"
    return None


def _general(path: Path) -> str:
    """The sentence of the field, or of the part of the contract it belongs to; what authors name is passed over."""
    field = path[2:3] if path[0] in NAMED else path[1:2]
    if path[0] in ("annotations", "state", "negative_goldens") or (path[0] == "inputs" and field != ("steps",)):
        field = ()
    return next((_FIXED[word] for word in (*field, path[0]) if word in _FIXED), "nothing for a line")


def _security(was: int, is_now: int) -> str:
    if is_now > was:
        return f"once B is confirmed, a device whose floor has risen to {is_now} refuses A"
    return f"a device whose floor is above {is_now} refuses B as a roll-back"


def _kind(manifest: Manifest, name: str) -> Any:
    return next(channel.kind for channel in manifest.channels if channel.name == name)


def _unit(was: str, is_now: str, kind: Any) -> str:
    try:
        a, b = conversion(resolve(was), resolve(is_now), kind)
    except (UnitMismatch, UnitUnknown):
        return f"another quantity: a binding whose unit converts to {was} is refused at boot"
    if (a, b) == (1.0, 0.0):
        return "the same size of unit under another name: nothing changes"
    return (
        f"nothing where device.toml or the payload names the unit: it is converted (x * {a!r} + {b!r}); where nobody "
        "does and the contract assumes, every number is read wrongly"
    )


def _physical(was: Band, is_now: Band) -> str:
    words = []
    if is_now.min > was.min or is_now.max < was.max:
        words.append("samples outside the new band are refused that A took (beyond_physical)")
    if is_now.min < was.min or is_now.max > was.max:
        words.append("samples are taken that A refused")
    return "; ".join(words)


def _undeclared(is_now: str) -> str:
    if is_now == "refuse":
        return "a line that names no unit for it is refused at its first sample: write the unit in device.toml"
    return "a line that names no unit for it is answered now, in the contract's unit, flagged 'assumed_unit'"
