"""`edge-runtime inspect` and `verify`: a contract in a person's words, whether a bundle is whole; no model runs."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from edge_runtime.bundle.golden import Goldens
from edge_runtime.bundle.golden import decode as decode_goldens
from edge_runtime.bundle.judgement import SignedBy
from edge_runtime.bundle.names import shown
from edge_runtime.bundle.read import read_files
from edge_runtime.bundle.trusted_keys import load_keys
from edge_runtime.bundle.verify import VerifiedBundle, verify
from edge_runtime.errors import BundleError
from edge_runtime.run.trust import signer_of
from edge_runtime.spec.frozen import Band
from edge_runtime.spec.inputs import Channel
from edge_runtime.spec.manifest import Manifest, encode, parse
from edge_runtime.spec.outputs import Destandardize, Output
from edge_runtime.spec.steps import Step
from edge_runtime.spec.variant import Tolerance, Variant

Row = tuple[str, ...]


def main(args: Namespace) -> int:
    """Print the contract of ``args.bundle`` (``inspect``) or only whether it is whole and, with keys, by whom (``verify``).

    Raises:
        BundleError: the bundle is not whole, its manifest says what this release does not understand, or, with keys,
            none of them signed it.
        ConfigurationError: the keys, or no extra `signing` to check with.

    """
    bundle = verify(read_files(Path(args.bundle)), args.bundle)
    if args.command == "verify":
        signer = signer_of(bundle, bundle.signature, load_keys(Path(args.keys))) if args.keys else None
        manifest = manifest_of(bundle)
        whole = _as_json(_whole(bundle, manifest, signer)) if args.json else None
        _tell(whole or "\n".join(_whole_lines(bundle, manifest, signer)))
        return 0
    manifest = manifest_of(bundle)
    if args.json:
        _tell(_as_json({"digest": bundle.digest, "manifest": json.loads(encode(manifest))}))
    else:
        _tell("\n".join(describe(bundle, manifest)))
    return 0


def describe(bundle: VerifiedBundle, manifest: Manifest) -> Iterator[str]:
    """Every line of the contract for a person."""
    yield f"{manifest.id} {manifest.version}: {manifest.description}"
    yield f"  LIMITS     {manifest.provenance.limits}"
    yield f"  digest     {bundle.digest}"
    yield f"  signature  {_signature_text(bundle, None)}"
    yield f"  security   version {manifest.security_version}"
    for model_input in manifest.inputs:
        yield ""
        sizes = (size if isinstance(size, int) else "any" for size in model_input.shape)
        shape = ", ".join(f"{axis} {size}" for axis, size in zip(model_input.axes, sizes, strict=True))
        yield f"input {model_input.tensor} ({model_input.dtype}: {shape})"
        yield from _table([_CHANNEL_HEAD, *(_channel_row(channel) for channel in model_input.channels)])
    yield from _window_lines(manifest)
    for model_input in manifest.inputs:
        yield ""
        yield f"preprocessing to {model_input.tensor}, in float64 with stored constants"
        for step in model_input.steps:
            yield from _step_lines(step, [channel.name for channel in model_input.channels])
        if manifest.preprocess_onnx:
            yield f"  the author's own, {manifest.preprocess_onnx.model}"
        elif not model_input.steps:
            yield "  none"
    for state in manifest.state:
        yield ""
        again = "anew after a gap" if state.reset == "gap" else "never anew"
        yield f"state {state.input} of shape {state.shape}: from {state.output} of the call before, {again}"
    for output in manifest.outputs:
        yield from _output_lines(output)
    yield from _plausibility_lines(manifest)
    for variant in manifest.variants:
        yield from _variant_lines(bundle, manifest, variant)
    yield from _proof_lines(manifest)
    yield from _provenance_lines(manifest)


_SHOWN = 16

_CHANNEL_HEAD: Row = ("channel", "unit", "trained", "tolerated", "physical", "unit undeclared", "stuck after")


def _channel_row(channel: Channel) -> Row:
    unit = channel.unit + (" (difference)" if channel.kind == "difference" else "")
    if channel.form != "number":
        words = ", ".join(channel.categories) if channel.categories else f"{channel.dtype} {channel.shape}"
        return (channel.name, channel.form, words, "", "", "", "")
    bands = (_band(band) for band in channel.bands)
    stuck = f"{channel.stuck_after} equal" if channel.stuck_after else "not judged"
    return (channel.name, unit, *bands, channel.when_undeclared, stuck)


def _band(band: Band) -> str:
    return f"{band.min:g} to {band.max:g}"


def _plausibility_lines(manifest: Manifest) -> Iterator[str]:
    asked = manifest.plausibility
    if asked is None:
        return
    units = {channel.name: channel.unit for channel in manifest.channels}
    yield ""
    yield "flagged against training, never refused"
    if asked.step:
        told = (f"{name} {limit:.4g} {units[name]}" for name, limit in asked.step.limits.items())
        yield f"  step      a change in a second of more than: {', '.join(told)}"
    if asked.shifted:
        one = asked.shifted
        yield f"  shifted   CUSUM of means of {one.samples} samples, k {one.k:g}, h {one.h:g}: {', '.join(one.means)}"
    if asked.drifted:
        yield f"  drifted   PSI of {asked.drifted.samples} samples above {asked.drifted.limit:g}: {', '.join(asked.drifted.bins)}"
    if asked.constant:
        yield f"  constant  one answer to {asked.constant.after} different inputs in a row"


def _window_lines(manifest: Manifest) -> Iterator[str]:
    window = manifest.window
    yield ""
    if window is None:
        yield "window: none, each sample is one input"
        return
    pace = "not checked: the contract has no period_s, so a sample that is missing is not seen either"
    if window.period_s:
        pace = (
            f"one each {window.period_s:g} s, flagged where off by more than {window.rate_tolerance:.0%}; "
            "a window over a missing sample is refused"
        )
    yield f"window: {window.length} samples, moved by {window.hop}, {window.order.replace('_', ' ')}"
    yield f"  pace: {pace}"


def _step_lines(step: Step, names: Sequence[str]) -> Iterator[str]:
    yield f"  {step.step}"
    constants = {key: values for key, values in step if key != "step"}
    if not all(isinstance(values, tuple) and len(values) == len(names) for values in constants.values()):
        for key, values in constants.items():
            yield f"    {key}: {values if not isinstance(values, tuple) or len(values) < _SHOWN else f'{len(values)} numbers'}"
        return
    rows = [(name, *(f"{values[at]!r}" for values in constants.values())) for at, name in enumerate(names)]
    yield from _table([("channel", *constants), *rows], indent="    ")


def _output_lines(output: Output) -> Iterator[str]:
    yield ""
    yield f"output {output.name} [{output.unit}]: {output.meaning}"
    for step in output.postprocess:
        yield (
            f"  {step.step}: y * {step.std!r} + {step.mean!r}" if isinstance(step, Destandardize) else f"  {step.step}"
        )
    if output.labels:
        yield f"  labels: {', '.join(output.labels)}"
    for flag in output.flags:
        back = "at or above" if flag.side == "below" else "at or below"
        yield f"  flag {flag.name}: on {flag.side} {flag.on:g} {output.unit}, off again {back} {flag.off:g}"


def _variant_lines(bundle: VerifiedBundle, manifest: Manifest, variant: Variant) -> Iterator[str]:
    size = len(bundle.files[variant.model])
    opsets = ", ".join(f"{domain} {version}" for domain, version in sorted(variant.opsets.items()))
    yield ""
    yield f"variant {variant.name}: {variant.precision}, {variant.model} of {size} bytes"
    yield f"  IR {variant.ir_version}, opset {opsets}; operators {', '.join(variant.operators)}"
    yield f"  processor: {', '.join(variant.isa) or 'no special feature needed'}"
    for provider, tolerance in variant.tolerances.items():
        yield f"  tolerance on {provider}: {_tolerance(tolerance)}"
        yield f"    evidence: {tolerance.evidence}"
    for name, band in variant.input_clip.items():
        yield f"  {name} is clipped by its int8 scale outside {_band(band)}"
    for name, scale in variant.output_scale.items():
        yield f"  {name} has int8 steps of {scale.step:.4g}, from {scale.min:.4g} to {scale.max:.4g}"
    goldens = _goldens(bundle, variant)
    asked = _asked(goldens)
    yield f"  goldens: {len(goldens)} cases in {variant.goldens}, {asked} of them with the framework's own answer"
    yield f"  proven at batch sizes {', '.join(str(size) for size in manifest.batch_sizes)}"


def _tolerance(tolerance: Tolerance) -> str:
    match tolerance.kind:
        case "exact":
            return "equal"
        case "steps":
            return f"at most {tolerance.steps} output steps off"
        case "float":
            return f"at most {tolerance.atol:g} + {tolerance.rtol:g} * |expected| off"


def _asked(goldens: Goldens) -> int:
    """How many cases the source framework was asked: its answer is NaN where it was not, or of words empty."""
    known = (
        ((one != "") if one.dtype.kind == "U" else np.isfinite(one)).reshape(len(one), -1).all(axis=1)
        for one in goldens.references.values()
    )
    return max((int(rows.sum()) for rows in known), default=0)


def _proof_lines(manifest: Manifest) -> Iterator[str]:
    yield ""
    yield f"must refuse: {len(manifest.negative_goldens)} faults"
    for golden in manifest.negative_goldens:
        where = f" in {golden.channel}" if golden.channel else ""
        yield f"  {golden.fault}{where}: {golden.expect}"
    needs = manifest.needs
    yield f"needs: an answer within {needs.latency_p99_ms:g} ms (p99), {needs.memory_mb:g} MB"


def _provenance_lines(manifest: Manifest) -> Iterator[str]:
    yield ""
    yield "provenance"
    for key, text in manifest.provenance:
        yield f"  {key}: {text}"
    for key, text in manifest.annotations.items():
        yield f"  {key}: {text}"


def _table(rows: Sequence[Row], indent: str = "  ") -> Iterator[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield (indent + "  ".join(cells)).rstrip()


def _signature_text(bundle: VerifiedBundle, signer: SignedBy | None) -> str:
    if signer is not None:
        return f"by {shown(signer.key)}, key {signer.hint}"
    if bundle.signature is None:
        return "not checked: there is none"
    return "not checked: there is one; `edge-runtime verify` checks it with --keys"


def _whole(bundle: VerifiedBundle, manifest: Manifest, signer: SignedBy | None) -> dict[str, object]:
    return {
        "id": manifest.id,
        "version": manifest.version,
        "security_version": manifest.security_version,
        "digest": bundle.digest,
        "signature": "valid" if signer else "not checked",
        "signature_file": bundle.signature is not None,
        "signed_by": signer and {"key": signer.key, "hint": signer.hint},
        "files": {name: len(data) for name, data in sorted(bundle.files.items())},
    }


def _whole_lines(bundle: VerifiedBundle, manifest: Manifest, signer: SignedBy | None) -> Iterator[str]:
    yield f"{manifest.id} {manifest.version}: every file is as SHA256SUMS says, and nothing else is there"
    yield f"  digest     {bundle.digest}"
    yield f"  signature  {_signature_text(bundle, signer)}"
    for name, data in sorted(bundle.files.items()):
        yield f"  {len(data):>10} bytes  {name}"
    yield "That it is whole does not say that it answers right: `edge-runtime selftest` runs its goldens."


def manifest_of(bundle: VerifiedBundle) -> Manifest:
    """The manifest of a bundle, whose every file is there.

    Raises:
        BundleError: it says what this release does not understand, or names a file that is not there.

    """
    manifest = parse(bundle.files.get("manifest.json", b""))
    absent = sorted(manifest.files() - set(bundle.files))
    if absent:
        raise BundleError(
            subject=f"bundle {bundle.origin}, manifest.json", found=f"{', '.join(absent)} not in the bundle",
            expected="every file it names", todo="have the author build the bundle again",
        )  # fmt: skip
    return manifest


def _goldens(bundle: VerifiedBundle, variant: Variant) -> Goldens:
    return decode_goldens(bundle.files[variant.goldens], subject=variant.goldens)


def _as_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _tell(text: str) -> None:
    sys.stdout.write(text + "\n")
