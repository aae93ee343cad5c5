"""Why a check fails in the field and what to do, likeliest first for what is known; a table, it measures nothing."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Cause(NamedTuple):
    """One cause; ``when`` names the parts of the environment whose change makes it the likeliest."""

    text: str
    todo: str
    when: tuple[str, ...] = ()


STAGES: Final[Mapping[str, str]] = {
    "hash_known_answer": "before the bundle: the machine's own arithmetic",
    "files": "the bundle's bytes",
    "signature": "who made the bundle",
    "manifest": "the bundle's contract",
    "rollback_floor": "the bundle's age",
    "onnxruntime": "the installation",
    "compatibility": "bundle against machine and onnxruntime",
    "headroom": "memory, before the model is loaded",
    "provider": "loading the model",
    "placement": "where the model's nodes run",
    "goldens": "the stored cases themselves",
    "units": "the contract's units",
    "bindings": "device.toml against the contract",
    "golden_tensor": "one of three, preprocessing: raw values with units -> the model's input",
    "golden_output": "two of three, the model: its input -> its output",
    "golden_answer": "three of three, postprocessing: the model's output -> the answer",
    "golden_batches": "all three at once, in batches",
    "negative_goldens": "what must be refused",
    "latency": "time",
    "provider_choice": "which of the profile's providers serves",
    "memory": "memory, against the bundle's promise",
    "memory_limit": "memory, with the model loaded",
    "provider_cache": "what a provider had kept of an earlier boot",
    "ports": "the serial ports",
}

_GOLDEN: Final = ("golden_tensor", "golden_output", "golden_answer")
FOLLOWS: Final[Mapping[str, tuple[str, ...]]] = {
    "golden_tensor": ("golden_output",), "golden_batches": _GOLDEN, "negative_goldens": ("golden_tensor", "bindings"),
    "golden_output": ("placement",), "latency": ("placement",), "memory_limit": ("headroom",),
}  # fmt: skip
"""By check the earlier ones whose failure it shares."""

_REBUILD: Final = Cause(
    "the bundle was built wrongly, or put together from parts of two: then it fails on every machine alike",
    "run edge-runtime selftest --bundle on another machine; if it fails there too, send both reports to the author",
    ("bundle",),
)
_EDITED: Final = Cause(
    "somebody edited the bundle and made its sums right again",
    "compare it with the one that was delivered: edge-runtime diff; install that one",
    ("bundle",),
)
_HARDWARE: Final = Cause(
    "memory or processor are failing: another number each time, with nothing changed",
    "run it ten times; if the verdict or the numbers vary, test the memory and replace the machine",
)
_OTHER_KERNEL: Final = Cause(
    "another onnxruntime or processor computes in another order or with another int8 kernel",
    "go back to the version that passed, or have the author state a wider tolerance with its evidence",
    ("onnxruntime", "processor", "features", "provider", "options", "variant", "threads", "architecture"),
)
_DRIVER: Final = Cause(
    "another driver, device or firmware computes otherwise, or does not go with this onnxruntime",
    "go back to the one that passed, or install the onnxruntime that is made for it",
    ("driver", "device", "firmware", "kernel"),
)
_OWN_LIBRARY: Final = Cause(
    "numpy, the C library or edge-runtime itself were updated and compute a step otherwise",
    "go back to the version that passed and report it",
    ("edge-runtime", "glibc"),
)

_CAUSES: Final[Mapping[str, tuple[Cause, ...]]] = {
    "hash_known_answer": (_HARDWARE, _OWN_LIBRARY),
    "files": (
        Cause("a copy was cut off or a medium is failing", "copy the bundle again; look at the disk's own health"),
        Cause("a file was added or removed by hand, or by a tool that leaves its own", "install the bundle anew", ("bundle",)),
        Cause("the path is wrong", "correct `bundle` in device.toml, or --bundle"),
    ),
    "signature": (
        Cause("the bundle is signed by a key this device does not trust, or not at all",
              "add the key of whoever may sign (docs/signing.md), or get the signed bundle"),
        _EDITED,
    ),
    "manifest": (
        Cause("the bundle needs a later edge-runtime", "update edge-runtime", ("edge-runtime", "bundle")), _EDITED, _REBUILD,
    ),
    "rollback_floor": (
        Cause("an older bundle was installed over a newer one", "install the newer one: edge-runtime diff shows both", ("bundle",)),
        Cause("the state folder is another device's", "give this device a state folder of its own", ("configuration",)),
    ),
    "onnxruntime": (
        Cause("two distributions of onnxruntime overwrite each other", "uninstall both, install the one the profile names",
              ("onnxruntime",)),
        Cause("another part of the program imported it first, with its telemetry on", "set ORT_DISABLE_TELEMETRY=1 at the start"),
    ),
    "compatibility": (
        Cause("an onnxruntime too old for the model's format", "update onnxruntime, or have the author export lower",
              ("onnxruntime", "bundle")),
        Cause("the bundle has no variant for this machine", "get the bundle that has one: edge-runtime inspect lists them",
              ("bundle", "processor", "features", "architecture")),
        Cause("the profile is another machine's", "name the right one in device.toml", ("configuration",)),
    ),
    "headroom": (
        Cause("other programs, or an older copy of this one, have taken the memory",
              "look at what runs (top, systemd-cgtop); run it again when that has ended"),
        Cause("the service's or container's limit, or the profile's memory_mb, is set too low",
              "raise MemoryMax= or memory_mb where the machine has more", ("configuration",)),
        Cause("the bundle needs more than the one before, or states more than it takes",
              "edge-runtime diff shows both; have the author state what `memory` of the self-test measured", ("bundle",)),
    ),
    "provider": (
        Cause("the provider is not in this onnxruntime", "install the distribution the profile names", ("onnxruntime", "provider")),
        Cause("its options ask for what is not here", "correct them in the profile", ("options",)),
        _DRIVER,
        Cause("the model is not this manifest's: other inputs, outputs or batch size", "have the author build it again",
              ("bundle",)),
        _OTHER_KERNEL,
    ),
    "placement": (
        Cause("the provider took only a part of the model", "install the provider the profile names, or name another profile",
              ("onnxruntime", "provider", "configuration")),
        Cause("the model has operators that provider lacks", "have the author build a variant for it", ("bundle", "variant")),
        _DRIVER,
    ),
    "provider_choice": (
        Cause("the profile's first provider does not work here, or not for this bundle", "the line says what refused it",
              ("onnxruntime", "provider", "configuration", "bundle", "driver", "device")),
    ),
    "provider_cache": (
        Cause("the disk lost or changed what was written, or power failed", "look at the disk's own health if it comes again"),
        Cause("somebody, or another program, wrote into the state folder", "give the service a folder of its own, mode 0700"),
        Cause("the provider reads its own files wrongly", "take `cache` off it in the profile", ("onnxruntime", "provider")),
    ),
    "goldens": (_REBUILD, _EDITED),
    "units": (_EDITED, _REBUILD),
    "bindings": (
        Cause("the new bundle has other channels or units", "edge-runtime diff OLD NEW says which; correct device.toml",
              ("bundle",)),
        Cause("device.toml names a channel or unit wrongly", "correct [line.channels]; edge-runtime doctor checks it",
              ("configuration",)),
    ),
    "golden_tensor": (_EDITED, _REBUILD, _OWN_LIBRARY, _HARDWARE),
    "golden_output": (
        _OTHER_KERNEL,
        Cause("the model file is another than the goldens were made with", "edge-runtime diff against the delivered bundle",
              ("bundle",)),
        _DRIVER, _REBUILD, _HARDWARE,
    ),
    "golden_answer": (_EDITED, _REBUILD, _OWN_LIBRARY, _HARDWARE),
    "golden_batches": (
        Cause("the provider answers otherwise in a batch, or the model looks across it",
              "have the author look at docs/lint.md, batch-dependent; until then a bundle of batch_sizes [1]",
              ("onnxruntime", "bundle")),
        _OTHER_KERNEL, _DRIVER, _HARDWARE,
    ),
    "negative_goldens": (_EDITED, _REBUILD, _OWN_LIBRARY),
    "latency": (
        Cause("the processor is throttled by heat, power or a governor, or other programs took what the kernel does not count",
              "look at temperature, supply and governor (edge-runtime doctor), and stop what else runs; run it again"),
        Cause("a slower kernel: onnxruntime, the provider or what the processor has changed", "go back, or have the limit raised",
              ("onnxruntime", "provider", "options", "threads", "features", "processor", "driver", "device", "kernel")),
        Cause("the model is slower than the one before", "edge-runtime diff; use a faster machine", ("bundle",)),
    ),
    "memory": (
        Cause("the bundle states less than it takes", "have the author state what was measured here", ("bundle",)),
        Cause("another onnxruntime takes more", "go back, or raise the limit", ("onnxruntime",)),
    ),
    "memory_limit": (
        Cause("the profile's memory_mb, or the service's limit, is set too low", "raise it where the machine has more",
              ("configuration",)),
        Cause("the provider or the bundle takes more than before", "edge-runtime diff; go back, or raise the limit",
              ("bundle", "onnxruntime", "provider")),
    ),
    "ports": (
        Cause("the adapter is unplugged, or has not come up yet", "plug it in or wait; edge-runtime doctor lists what is there"),
        Cause("its name has changed", "name it by /dev/serial/by-id or by match", ("kernel", "configuration")),
    ),
}  # fmt: skip

_ALL: Final = Cause(
    "everything at once: the machine, rather than any one part",
    "test memory and disk; try the bundle on another machine",
)
_MANY: Final = 3
_COOL: Final = "mend that (edge-runtime doctor says what helps), and run it again"


def causes(
    check: str, failed: Sequence[str], changes: Sequence[str] | None, strains: Sequence[str] = ()
) -> list[Cause]:
    """The causes of a check's failure, those first whose part of the environment has ``changes`` (words of a report).

    Where all golden stages fail at once that is said first; where it is known that nothing has changed, what needs a
    change comes last. ``strains``, what slowed the machine down by its own report, go before all where time is the matter.
    """
    found = _by_changes(check, failed, changes)
    if check != "latency" or not strains:
        return found
    return [Cause(f"the machine itself says that it was slow then: {'; '.join(strains)}", _COOL), *found]


def _by_changes(check: str, failed: Sequence[str], changes: Sequence[str] | None) -> list[Cause]:
    listed = list(_CAUSES.get(check, (_HARDWARE,)))
    if len(set(failed) & set(_GOLDEN)) >= _MANY:
        listed = [_ALL, *listed]
    if changes is None:
        return listed
    parts = {words.split(" ", 1)[0]: words for words in changes}
    told = [
        cause._replace(text=f"{cause.text} (changed: {'; '.join(hit)})") if (hit := _hits(cause, parts)) else cause
        for cause in listed
    ]
    return sorted(told, key=lambda cause: (not _hits(cause, parts), bool(cause.when)))


def _hits(cause: Cause, parts: Mapping[str, str]) -> list[str]:
    return [parts[name] for name in cause.when if name in parts]
