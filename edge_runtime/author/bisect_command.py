"""The command `explain` where onnx is installed: the first wrong node or step beside what a device tells; it boots as that does."""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edge_runtime.errors import EdgeRuntimeError
from edge_runtime.run import explain
from edge_runtime.spec.report_file import BootFile

if TYPE_CHECKING:
    from edge_runtime.author.bisect import Place, Runs
    from edge_runtime.bundle.verify import VerifiedBundle

_WHERE: Final = {
    "preprocessing": "one of three, preprocessing", "model": "two of three, the model",
    "postprocessing": "three of three, postprocessing",
}  # fmt: skip
_DIGITS: Final = 12


def main(args: Namespace) -> int:
    """`run.explain.main`, each failure of a golden with its first wrong node or step, or with what it takes to find it.

    Raises:
        UsageError, ConfigurationError: as there.

    """
    return explain.main(args, further)


def further(boot: BootFile, args: Namespace) -> Iterator[str]:
    """What can be told of one boot beyond its report, line by line; nothing where no golden failed first, or by a drill."""
    if not explain.breaks_a_golden(boot):
        return
    path = args.bundle or (None if args.report else boot.bundle.path)
    if path is None:
        yield _line(
            "not looked for: give --bundle, the bundle that was tested, and --against, the one that was delivered"
        )
        return
    try:
        yield from _looked_for(boot, Path(path), args)
    except EdgeRuntimeError as error:
        yield _line(f"not found: {error}")


def _looked_for(boot: BootFile, path: Path, args: Namespace) -> Iterator[str]:
    from edge_runtime.author.bisect import (  # noqa: PLC0415 -- onnx, where there is a failure
        first_broken,
        first_in_a_batch,
        subject,
    )
    from edge_runtime.spec.providers import CPU  # noqa: PLC0415

    bundle, delivered = _bundle(path), _bundle(Path(args.against)) if args.against else None
    mixed_up = _mixed_up(boot, bundle, delivered)
    if mixed_up:
        yield _line(f"not looked for: {mixed_up}")
        return
    is_tested = boot.bundle.digest == bundle.digest
    if not is_tested:
        digest = (boot.bundle.digest or "none")[:_DIGITS]
        yield f"  beware       {path} is not what was tested: digest {bundle.digest[:_DIGITS]}, tested {digest}"
        if delivered is None:
            yield _line(
                f"not looked for: copy {boot.bundle.path} from the device, and give it as --bundle, this as --against"
            )
            return
    runs = _runs(boot, args)
    if delivered is not None or runs.provider != CPU:
        yield from _compared(boot, bundle, delivered or bundle, runs)
        return
    tested = subject(bundle)
    place = first_in_a_batch(tested)
    if place is not None:
        yield from _told(place)
        return
    broken = first_broken(tested)
    if broken is None:
        yield _line("none here: these very bytes pass their goldens on this machine, so the fault is in that one: its")
        yield _more("onnxruntime, libraries, processor or memory; compare the environments of the two reports")
    else:
        yield _line(
            f"not looked for: it fails here as well ({broken[0].name}: {broken[1].measured}), so the bundle is wrong;"
        )
        yield _more("give --against, the bundle that was delivered, to have the node or step named")


def _mixed_up(boot: BootFile, bundle: "VerifiedBundle", delivered: "VerifiedBundle | None") -> str:
    """Why what is given cannot say what is wrong with what was tested; empty where it can."""
    tested = boot.bundle
    for one in (bundle, delivered):
        name = _id_of(one) if one is not None else None
        if one is not None and name is not None and tested.id and name != tested.id:
            return f"{one.origin} is a bundle {name}, and {tested.id} was tested"
    if delivered is None or bundle.digest == tested.digest:
        return ""
    if delivered.digest == tested.digest:
        return f"the two are exchanged: {delivered.origin} is what was tested, give it as --bundle, and the other as --against"
    if delivered.digest == bundle.digest:
        return (
            f"--bundle and --against are one and the same, and not what was tested: copy {tested.path} from the device"
        )
    return ""


def _id_of(bundle: "VerifiedBundle") -> str | None:
    """What its manifest calls it; None where that cannot be read, which may be the very fault."""
    from edge_runtime.spec.manifest import parse  # noqa: PLC0415

    try:
        return parse(bundle.files.get("manifest.json", b"")).id
    except EdgeRuntimeError:
        return None


def _compared(boot: BootFile, bundle: "VerifiedBundle", delivered: "VerifiedBundle", runs: "Runs") -> Iterator[str]:
    """First the bytes, both on the CPU and to the last bit; then the provider, as near as its tolerance."""
    from edge_runtime.author.bisect import Runs, first_place, subject  # noqa: PLC0415
    from edge_runtime.spec.providers import CPU  # noqa: PLC0415

    reference = subject(delivered)
    asked = [Runs()] if bundle.digest != delivered.digest else []
    asked += [runs] if runs.provider != CPU else []
    for one in asked or [Runs()]:
        place = first_place(subject(bundle, one), reference)
        if place is not None:
            yield from _told(place)
            yield f"  compared     with {delivered.origin} on {CPU}, itself on {one.provider}"
            return
    yield _line(f"none here: {bundle.origin} computes on this machine what {delivered.origin} does, so")
    if bundle.digest == boot.bundle.digest:
        yield _more("the fault is in the machine that was tested: its onnxruntime, libraries, processor or memory")
    else:
        yield _more(
            f"nothing is known of what was tested: copy {boot.bundle.path} from the device, and give it as --bundle"
        )


def _told(place: "Place") -> Iterator[str]:
    found = place.found
    kind = getattr(found, "operator", None) or getattr(found, "kind", "")
    yield _line(f"stage {_WHERE[place.stage]}: {found.name} ({kind})")
    if found.differs:
        yield _more(f"what differs: {'; '.join(found.differs)}")
    agree = getattr(found, "agree", None)
    before = "" if agree is None else f"; {agree} outputs before it agree"
    fused = ", with what onnxruntime fuses it with" if getattr(found, "is_fused", False) else ""
    yield _more(f"{found.measured}, allowed {found.limit}{before}{fused}")


def _bundle(path: Path) -> "VerifiedBundle":
    from edge_runtime.bundle.read import read_files  # noqa: PLC0415
    from edge_runtime.bundle.verify import verify  # noqa: PLC0415

    return verify(read_files(path), str(path))


def _runs(boot: BootFile, args: Namespace) -> "Runs":
    """The provider of the report, with the options of its profile where this machine has that profile."""
    from edge_runtime.author.bisect import Runs  # noqa: PLC0415
    from edge_runtime.run.setting import make_setting  # noqa: PLC0415

    try:
        profile = make_setting(args.profile or boot.profile).profile
    except EdgeRuntimeError:
        return Runs(boot.provider, {})
    options = {choice.name: choice.options for choice in profile.providers}
    return Runs(boot.provider, options.get(boot.provider, {}))


def _line(text: str) -> str:
    return f"  first wrong  {text}"


def _more(text: str) -> str:
    return f"               {text}"
