"""The checks of a boot, each one comparison that can say no; none decides what follows from it.

Every check gives (value, measured, limit) or raises an EdgeRuntimeError, and takes ``inject``: then it corrupts its own
input, never its comparison, so that the comparison is what must notice.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from edge_runtime.bundle.golden import Goldens
from edge_runtime.bundle.golden import decode as decode_goldens
from edge_runtime.bundle.judgement import Judgement, SignedBy
from edge_runtime.bundle.names import SIGNATURE_NAME, shown
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.verify import VerifiedBundle, verify
from edge_runtime.bundle.verify import hash_known_answer as hash_answer_is_right
from edge_runtime.device.probe import Machine, needs_x64_quant_precision
from edge_runtime.engine import session as engine
from edge_runtime.errors import BundleError, ConfigurationError, DeviceError
from edge_runtime.flow.contract import Contract
from edge_runtime.flow.preprocess import make_preprocess
from edge_runtime.run.trust import Trust, forged, who_signed
from edge_runtime.spec.binding import ChannelBinding
from edge_runtime.spec.device_profile import DeviceProfile, ProviderChoice
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.manifest import Manifest, parse
from edge_runtime.spec.provider_options import misfit, provider_options
from edge_runtime.spec.providers import CPU
from edge_runtime.spec.units import UnitMismatch, UnitUnknown, conversion, resolve
from edge_runtime.spec.variant import Variant

if TYPE_CHECKING:
    from edge_runtime.engine.isolate import IsolatedSession
    from edge_runtime.run.boot import Setting

_QUANTIZED = frozenset(
    {"QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"}
)
_BUILD_AGAIN = "have the author build the bundle again"


class NotChecked(Exception):
    """There is nothing to compare: ``found`` says what is missing, ``why`` what would let it be checked."""

    def __init__(self, found: str, why: str) -> None:
        self.found = found
        self.why = why
        super().__init__(found, why)


class Sessions(NamedTuple):
    """The model's session, and that of the author's own preprocessing where the bundle has one.

    ``saturating`` says, where it can be so, how this processor may come to other int8 numbers than the goldens.
    """

    model: "engine.Session | IsolatedSession"
    prepare: "engine.Session | IsolatedSession | None"
    saturating: str = ""


class Conversions(NamedTuple):
    """Per line, what happens to each channel's number, in words."""

    by_line: Mapping[str, tuple[str, ...]]


def hash_known_answer(*, inject: bool) -> tuple[bool, str, str]:
    """SHA-256 gives the published digest of ``abc`` (FIPS 180-4), before it is trusted with anything else."""
    if not hash_answer_is_right(b"abd" if inject else b"abc"):
        raise DeviceError(
            subject="SHA-256", found="a wrong digest of a known text", expected="the published one",
            todo="this machine computes wrongly; replace it",
        )  # fmt: skip
    return True, "right", "the published digest"


def files(path: Path, *, digest: str | None = None, inject: bool) -> tuple[VerifiedBundle, str, str]:
    """Every byte of the bundle is what SHA256SUMS says, and nothing else is there; in a store it is of the digest asked for."""
    content = dict(read_files(path))
    if inject:
        name = max((one for one in content if one != SIGNATURE_NAME), key=lambda one: len(content[one]))
        content[name] = content[name][:-1] + bytes([content[name][-1] ^ 1])
    bundle = verify(content, str(path))
    if digest is not None and bundle.digest != digest:
        raise BundleError(
            subject=f"bundle {path}", found=f"another one, of digest {bundle.digest[:12]}", expected=f"{digest[:12]}",
            todo="stage it again: what stands in the store was changed",
        )  # fmt: skip
    size = sum(len(data) for data in bundle.files.values())
    return bundle, f"{len(bundle.files)} files, {size} bytes, digest {bundle.digest[:12]}", "SHA256SUMS"


def signature(bundle: VerifiedBundle, trust: Trust, *, inject: bool) -> tuple[SignedBy, str, str]:
    """A trusted key signed exactly the bytes that are loaded, or the device's policy lets the bundle serve without."""
    made = bundle.signature
    if inject:
        made, trust = forged(bundle, trust)
    found = who_signed(bundle, made, trust)
    if isinstance(found, Judgement):
        raise NotChecked(found.reason, f"policy {trust.policy} lets it serve all the same, see docs/signing.md")
    return found, f"signed by {shown(found.key)}, key {found.hint[:12]}", "a trusted key, over every file"


def manifest(bundle: VerifiedBundle, *, identity: str | None = None, inject: bool) -> tuple[Manifest, str, str]:
    """The manifest says only what this release understands, names only files that are there, and has the id asked for."""
    data = bundle.files.get("manifest.json", b"")
    if inject:
        data = data.replace(b'"must_understand"', b'"must_understood"', 1).replace(b'"schema"', b'"scheme"', 1)
    found = parse(data)
    if identity is not None and found.id != identity:
        raise BundleError(
            subject="manifest.json, id", found=found.id, expected=f"{identity}, which the line takes from the store",
            todo="activate the bundle under its own id",
        )  # fmt: skip
    try:
        if found.preprocess_onnx is None:
            make_preprocess(found)
    except ValueError as error:
        raise BundleError(
            subject="manifest.json, steps", found=str(error), expected="steps that give the shapes stated",
            todo=_BUILD_AGAIN,
        ) from error  # fmt: skip
    absent = sorted(found.files() - set(bundle.files))
    if absent:
        raise BundleError(
            subject="manifest.json", found=f"{', '.join(absent)} not in the bundle", expected="every file it names",
            todo=_BUILD_AGAIN,
        )  # fmt: skip
    return found, f"{found.id} {found.version}", "schema edge-runtime/bundle/1"


def rollback_floor(found: Manifest, floor: int, *, inject: bool) -> tuple[bool, str, str]:
    """The bundle is not older than what this device has confirmed."""
    if inject:
        floor = found.security_version + 1
    if found.security_version < floor:
        raise BundleError(
            subject=f"bundle {found.id}, security_version", found=str(found.security_version),
            expected=f"{floor} or more, the floor of this device", todo="install a newer bundle",
        )  # fmt: skip
    return True, f"security_version {found.security_version}", f"{floor} or more"


def compatibility(
    found: Manifest, provider: str, profile: DeviceProfile, machine: Machine, runtime: str, *, inject: bool
) -> tuple[Variant, str, str]:
    """A variant that this onnxruntime, this provider, this profile and this processor can serve."""
    names = [one.name for one in found.variants]
    if profile.variant is not None and profile.variant not in names:
        raise BundleError(
            subject=f"profile {profile.name}, variant", found=f"no variant {profile.variant!r}",
            expected=f"one of {', '.join(names)}", todo="correct `variant` in the profile, or use a bundle that has it",
        )  # fmt: skip
    among = [one for one in found.variants if profile.variant in (None, one.name)]
    variant = next((one for one in among if _suits(one, provider, machine)), among[0])
    max_ir_version, max_opset = engine.newest_taken(runtime)
    ir_version = max_ir_version + 1 if inject else variant.ir_version
    if ir_version > max_ir_version:
        _too_new(f"variant {variant.name}, IR version", ir_version, f"at most {max_ir_version}", runtime)
    opset = variant.opsets.get("ai.onnx", 0)
    if not engine.MIN_OPSET <= opset <= max_opset:
        _too_new(f"variant {variant.name}, opset", opset, f"{engine.MIN_OPSET} to {max_opset}", runtime)
    if provider not in variant.tolerances:
        _unfit(
            f"variant {variant.name}, provider", provider, f"one its tolerances name: {', '.join(variant.tolerances)}"
        )
    unfit = misfit(provider, variant)
    if unfit is not None:
        raise BundleError(
            subject=f"variant {variant.name}", found=unfit[0], expected=unfit[1],
            todo=f"have the author add a variant for {provider}: docs/quantization.md, For a GPU",
        )  # fmt: skip
    if machine.architecture is not None and machine.architecture not in profile.architectures:
        raise DeviceError(
            subject=f"profile {profile.name}, architecture", found=machine.architecture,
            expected=" or ".join(profile.architectures), todo="name the profile of this machine in device.toml",
        )  # fmt: skip
    lacking = sorted((set(profile.isa) | set(variant.isa)) - (machine.isa or frozenset()))
    if lacking:
        raise DeviceError(
            subject="processor", found=f"no {', '.join(lacking)}", expected="all that profile and variant need",
            todo="use a machine that has it, or a bundle built for this one",
        )  # fmt: skip
    return (
        variant,
        f"variant {variant.name}, IR {variant.ir_version}, opset {opset}",
        f"IR to {max_ir_version}, opset to {max_opset}, profile {profile.name}",
    )


def _suits(variant: Variant, provider: str, machine: Machine) -> bool:
    """Whether a variant is for this provider and processor."""
    fits = provider in variant.tolerances and misfit(provider, variant) is None
    return fits and set(variant.isa) <= (machine.isa or frozenset())


def onnxruntime(*, inject: bool) -> tuple[str, str, str]:
    """Exactly one distribution of onnxruntime is installed, with its telemetry off before its import."""
    names = engine.distributions()
    if inject:
        names = [*names, "onnxruntime-gpu", "onnxruntime-openvino"]
    version = engine.version()
    if len(names) > 1:
        raise DeviceError(
            subject="onnxruntime", found=" and ".join(names), expected="one distribution: they overwrite each other",
            todo=f"pip uninstall {' '.join(names)}, then install the one the profile names",
        )  # fmt: skip
    if not engine.telemetry_is_off():
        raise DeviceError(
            subject="onnxruntime, telemetry", found="imported before it was switched off",
            expected="ORT_DISABLE_TELEMETRY=1 before the import",
            todo="set it in the environment, or import edge_runtime first",
        )  # fmt: skip
    return (
        version,
        f"{names[0] if names else 'onnxruntime (part of this program)'} {version}, telemetry off",
        "one, quiet",
    )


def provider(
    bundle: VerifiedBundle,
    found: Manifest,
    variant: Variant,
    choice: ProviderChoice,
    setting: "Setting",
    *,
    inject: bool,
    withheld: bool = False,
    library_digest: str | None = None,
) -> tuple[Sessions, str, str]:
    """The session that will serve is created on the provider, from the very bytes that were hashed.

    ``withheld``: without the option that keeps int8 sums from saturating, for the drill that shows what it is for.
    ``library_digest``: the SHA-256 of the library that the provider comes in, None where it comes in none that may be loaded.
    """
    seven_bit = variant.quantization is not None and variant.quantization.seven_bit_weights
    precise = _is_quantized(variant) and needs_x64_quant_precision(setting.machine, seven_bit_weights=seven_bit)
    if withheld and not precise:
        raise ConfigurationError(
            subject="--inject quant_precision", found="x64quantprecision is not needed here, so it cannot be withheld",
            expected="an x86-64 without VNNI, and int8 weights of more than 7 bits",
            todo="drill it with such a bundle on such a machine, or under emulation",
        )  # fmt: skip
    precise = precise and not withheld
    options = provider_options(choice, found, variant)
    opened = opener(setting.profile)
    session = opened(
        bundle.files[variant.model],
        provider=choice.name.replace("Execution", "Exec") if inject else choice.name,
        provider_options=options,
        library=choice.library,
        library_digest=library_digest,
        device=choice.device,
        elsewhere=choice.allowed_elsewhere > 0,
        threads=setting.profile.intra_threads,
        quant_precision=precise,
        takes_nan=any(channel.when_missing == "pass" for channel in found.channels),
    )
    _same_inputs(session, found)
    outputs = [name for name, _, _ in session.outputs]
    if outputs != list(variant.model_outputs):
        _unfit("the model's outputs", ", ".join(outputs), ", ".join(variant.model_outputs))
    kernels = ", with x64quantprecision" if precise else ""
    apart = ", in a process of its own" if setting.profile.isolation else ""
    prepare = None
    if found.preprocess_onnx is not None:
        prepare = opened(bundle.files[found.preprocess_onnx.model], threads=setting.profile.intra_threads)
        made = sorted(name for name, _, _ in prepare.outputs)
        if made != sorted(one.tensor for one in found.inputs):
            _unfit("preprocess.onnx, outputs", ", ".join(made), "the model's inputs by name")
    library = "" if choice.library is None else f" of {choice.library}, SHA-256 {library_digest}"
    return (
        Sessions(session, prepare, _saturating(variant, choice, setting.machine, precise=precise)),
        f"{choice.name}{library}{_told(options)}, {setting.profile.intra_threads} thread{kernels}{apart}",
        f"profile {setting.profile.name}",
    )


def opener(profile: DeviceProfile) -> "Callable[..., engine.Session | IsolatedSession]":
    """What opens a session where the profile wants it."""
    if profile.isolation is None:
        return engine.open_session
    from edge_runtime.engine.isolate import open_isolated  # noqa: PLC0415 -- for the profiles that ask for it

    return partial(open_isolated, **profile.isolation.model_dump())


def session_processes(profile: DeviceProfile) -> list[int]:
    """The ids of the processes that hold this one's sessions; none where the profile has no [isolation]."""
    if profile.isolation is None:
        return []
    from edge_runtime.engine.isolate import living  # noqa: PLC0415 -- for the profiles that ask for it

    return living()


def _is_quantized(variant: Variant) -> bool:
    """Whether it multiplies integers: one built here, or one that its author brought as it is."""
    return variant.precision == "int8" or not _QUANTIZED.isdisjoint(variant.operators)


def _saturating(variant: Variant, choice: ProviderChoice, machine: Machine, *, precise: bool) -> str:
    """What a wrong number of a quantized model may come from on this processor; nothing where it cannot."""
    if precise or choice.name != CPU or not _is_quantized(variant):
        return ""
    if not needs_x64_quant_precision(machine, seven_bit_weights=False):
        return ""
    stated = variant.quantization is not None and variant.quantization.seven_bit_weights
    why = "the manifest says that no weight needs it" if stated else "it is withheld"
    return (
        f"this x86-64 processor has no VNNI and session.x64quantprecision is off ({why}): "
        "its int8 sums saturate where weights have more than 7 bits"
    )


def _told(options: Mapping[str, str]) -> str:
    return "".join(f" {key}={text}" for key, text in options.items())


def provider_choice(
    provider: str, refused: Sequence[tuple[str, str]], figures: Sequence[tuple[str, float]], *, inject: bool
) -> tuple[bool, str, str]:
    """The provider that serves is the one the profile asks for, and none of its list was refused on the way to it.

    ``refused`` is (provider, reason); ``figures`` (provider, ms a call) of all that were measured against each other.
    """
    if inject:
        refused = [("AnotherExecutionProvider", "provider, it was injected"), *refused]
    measured = "; ".join(f"{name} {ms:.3g} ms" for name, ms in figures)
    wanted = "the fastest of the profile's list" if figures else "the first of the profile"
    served = f"{provider} ({measured})" if measured else provider
    if refused:
        why = "; ".join(f"{name} was refused by {reason}" for name, reason in refused)
        raise DeviceError(
            subject="provider", found=f"{served}: {why}",
            expected=f"{wanted}, with none refused" if figures else f"{refused[0][0]}, {wanted}",
            todo="mend what refused it, or take it off the profile's list",
        )  # fmt: skip
    return True, served, wanted


def _same_inputs(session: "engine.Session | IsolatedSession", found: Manifest) -> None:
    """Hold the tensors the model takes against those the manifest feeds, whatever their order and dimension names."""
    stated = {one.tensor: (_sizes(one.shape), one.dtype) for one in found.inputs}
    for state in found.state:
        shape: list[int | None] = list(state.shape)
        shape.insert(state.batch_axis, None)
        stated[state.input] = (tuple(shape), state.dtype)
    taken = {name: (_sizes(shape), dtype) for name, shape, dtype in session.inputs}
    # A batch dimension that the model fixes at 1 is served one by one.
    if found.batch_sizes == (1,):
        stated = {
            name: (_with_batch(sizes, taken.get(name, (sizes, ""))[0]), dtype)
            for name, (sizes, dtype) in stated.items()
        }
    if taken != stated:
        _unfit("the model's inputs", str(taken), str(stated))


def _with_batch(stated: tuple[int | None, ...], taken: tuple[int | None, ...]) -> tuple[int | None, ...]:
    if len(stated) != len(taken):
        return stated
    return tuple(1 if one == 1 and other is None else other for one, other in zip(taken, stated, strict=True))


def placement(sessions: Sessions, choice: ProviderChoice, *, inject: bool) -> tuple[bool, str, str]:
    """Every node runs where the profile says, but for the share it allows elsewhere."""
    placed = sessions.model.placement
    if inject:
        placed = Counter({"AnotherExecutionProvider": placed.total()})
    elsewhere = placed.total() - placed[choice.name]
    limit = f"at most {choice.allowed_elsewhere:.0%} elsewhere"
    if not placed.total() or elsewhere > choice.allowed_elsewhere * placed.total():
        where = ", ".join(f"{count} on {name}" for name, count in sorted(placed.items())) or "no node placed"
        raise DeviceError(
            subject="placement of the model's nodes", found=where, expected=f"{choice.name}, {limit}",
            todo="install the provider the profile names, or name another profile",
        )  # fmt: skip
    return True, f"{placed[choice.name]} of {placed.total()} nodes on {choice.name}", limit


def goldens(bundle: VerifiedBundle, found: Manifest, variant: Variant, *, inject: bool) -> tuple[Goldens, str, str]:
    """The stored cases can be read and are for these channels, tensors, answers and flags, no fewer and no more."""
    data = bundle.files[variant.goldens]
    stored = decode_goldens(data[:-1] if inject else data, subject=variant.goldens)
    channels = [channel.name for channel in found.channels]
    answers = [output.name for output in found.outputs]
    for what, there, wanted in (
        ("channels", stored.channels, channels),
        ("tensors", stored.tensors, [*(one.tensor for one in found.inputs), *(one.input for one in found.state)]),
        ("outputs", stored.outputs, variant.model_outputs),
        ("answers", stored.answers, answers),
        ("units of answers", stored.answer_units, answers),
        # A flag that was taken out of the manifest would be a warning that never comes, and no comparison would miss it.
        ("flags", stored.flags, [f"{output.name}.{flag.name}" for output in found.outputs for flag in output.flags]),
    ):
        if sorted(there) != sorted(wanted):
            _unfit(f"{variant.goldens}, {what}", ", ".join(there) or "none", ", ".join(wanted) or "none")
    if not len(stored):
        _unfit(variant.goldens, "no case", "at least one")
    return stored, f"{len(stored)} cases", "every stage stored"


def units(found: Manifest, stored: Goldens, *, inject: bool) -> tuple[bool, str, str]:
    """Every unit of the contract and of the goldens is known, and the goldens' convert to the contract's."""
    used = set()
    for channel in found.channels:
        if channel.form != "number":
            continue
        column = stored.channels.index(channel.name)
        texts = {row[column] for row in stored.units} | ({"furlong"} if inject else set())
        for text in sorted(texts):
            used.add(text)
            try:
                conversion(resolve(text), resolve(channel.unit), channel.kind)
            except (UnitUnknown, UnitMismatch) as error:
                raise BundleError(
                    subject=f"channel {channel.name}, unit", todo=str(error),
                    found=f"{channel.unit} in the contract, {text} in a golden", expected="two units of one kind",
                ) from error  # fmt: skip
    for output in found.outputs:
        try:
            resolve(output.unit)
        except UnitUnknown as error:
            raise BundleError(
                subject=f"output {output.name}, unit", found=output.unit, expected="a unit of docs/units.md",
                todo=str(error),
            ) from error  # fmt: skip
    return True, f"{len(used)} units", "known and convertible"


def bindings(
    found: Manifest, lines: Mapping[str, Mapping[str, ChannelBinding]], *, inject: bool
) -> tuple[Conversions, str, str]:
    """Each line delivers every channel, in a unit that converts; what converts how is in the report."""
    if not lines and not inject:
        raise NotChecked("no line", "no device file names a line for this bundle; give one with --config")
    channels = found.channels
    names = [channel.name for channel in channels]
    if inject:
        # A unit no table knows, so that it fails for a channel of any kind; without a channel of numbers, a name too many.
        lines = {"injected": {name: ChannelBinding(field=name, unit="furlong") for name in names}}
        if all(channel.form != "number" for channel in channels):
            lines = {"injected": {**lines["injected"], "one_too_many": ChannelBinding(field="x")}}
    by_line = {}
    for line, bound in lines.items():
        if sorted(bound) != sorted(names):
            raise _misnamed(line, names, bound)
        by_line[line] = _contract(channels, bound).conversions
    return Conversions(by_line), f"{', '.join(lines)} bound", "every channel converts"


def _contract(channels: Sequence[Channel], bound: Mapping[str, ChannelBinding]) -> Contract:
    """The contract of a line; raises for its first channel that does not fit, which holds those after it."""
    try:
        return Contract(channels, bound)
    except ConfigurationError as first:
        faults = [fault for channel in channels if (fault := _fault(channel, bound)) is not None]
        first.others = tuple(fault for fault in faults if str(fault) != str(first))
        raise


def _fault(channel: Channel, bound: Mapping[str, ChannelBinding]) -> ConfigurationError | None:
    try:
        Contract((channel,), bound)
    except ConfigurationError as error:
        return error
    return None


def _misnamed(line: str, names: Sequence[str], bound: Mapping[str, ChannelBinding]) -> ConfigurationError:
    """A mistyped key is also a missing one: the key is told first, with the channel that it is nearest to."""
    absent = [name for name in names if name not in bound]
    unknown = [key for key in bound if key not in names]
    found = [f"an unknown channel {key}{_perhaps(key, absent or names)}" for key in unknown]
    found += [f"no channel {', '.join(absent)}"] if absent else []
    return ConfigurationError(
        subject=f"line {line}, channels", found=" and ".join(found), expected=f"exactly {', '.join(names)}",
        todo=f"correct [line.channels] of {line} in device.toml",
    )  # fmt: skip


def _perhaps(key: str, names: Sequence[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 -- only a mistake needs it

    near = get_close_matches(key, names, n=1, cutoff=0.6)
    return f" ({near[0]} perhaps)" if near else ""


def _too_new(subject: str, found: int, expected: str, runtime: str) -> NoReturn:
    raise BundleError(
        subject=subject, found=str(found), expected=f"{expected}, what onnxruntime {runtime} takes",
        todo="update onnxruntime, or have the author export for this one",
    )  # fmt: skip


def _unfit(subject: str, found: str, expected: str) -> NoReturn:
    raise BundleError(subject=subject, found=found, expected=expected, todo=_BUILD_AGAIN)


def _sizes(shape: tuple[int | str | None, ...]) -> tuple[int | None, ...]:
    """A shape with its dynamic dimensions as None: their names are a matter of the exporter's taste."""
    return tuple(size if isinstance(size, int) else None for size in shape)
