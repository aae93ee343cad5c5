"""A process of its own for single-node models: collects ONNX's cases, or takes a batch through the engine, one by one.

`collect FOLDER BATCHES` writes the cases as pickles; `run PICKLE FIRST` takes the cases from the FIRST on and prints a
JSON line when it begins a case and one when it ends, so that a crash has a name.
"""

import contextlib
import json
import math
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np

from edge_runtime.author.graph import clean_graph
from edge_runtime.engine.session import open_session
from edge_runtime.errors import BundleError, DeviceError


def collect(folder: Path, batches: int) -> None:
    from onnx import TensorProto, numpy_helper
    from onnx.backend.test.case.node import collect_testcases

    def named(values, given):
        arrays = [numpy_helper.to_array(one) if isinstance(one, TensorProto) else one for one in given]
        return dict(zip([value.name for value in values], arrays, strict=False))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, from how the cases are made
        cases = collect_testcases(None)
    taken = []
    for case in sorted(cases, key=lambda case: case.name):
        graph = case.model.graph
        sets = [(named(graph.input, fed), named(graph.output, wanted)) for fed, wanted in case.data_sets]
        taken.append((case.name, case.model.SerializeToString(), sets, case.rtol, case.atol))
    for batch in range(batches):
        (folder / f"{batch}.pickle").write_bytes(pickle.dumps(taken[batch::batches]))


def run(path: Path, first: int) -> None:
    cases = pickle.loads(path.read_bytes())  # noqa: S301 - written a moment ago by `collect`
    for place, (name, model, sets, rtol, atol) in enumerate(cases[first:], first):
        _say({"begin": place, "name": name})
        said, why = _case(model, sets, rtol, atol)
        _say({"end": place, "name": name, "said": said, "why": why})


def _say(words):
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def _case(model, sets, rtol, atol):
    try:
        with contextlib.suppress(BundleError):
            clean_graph(model, subject="m.onnx", one_by_one=True)  # most fix a batch other than 1: any refusal will do
        session = open_session(model, takes_nan=True)
        for feeds, wanted in sets:
            empty = [name for name, value in feeds.items() if not np.size(value)]
            if empty:
                return "empty", f"{empty[0]} holds nothing, which the engine's caller must not hand it"
            found = session({name: np.asarray(value) for name, value in feeds.items()})
            off = [name for name, value in wanted.items() if not _equal(found[name], value, rtol, atol)]
            if off:
                return "wrong", _words(found[off[0]], wanted[off[0]])
    except (BundleError, DeviceError) as refusal:
        words = str(refusal)
        return ("no", words) if "\n" not in words else ("traceback", words)
    except BaseException as fault:  # noqa: BLE001 - any other kind is what is looked for
        return "traceback", f"{type(fault).__name__}: {fault}"[:300]
    return "yes", ""


def _equal(found, wanted, rtol, atol):
    wanted = np.asarray(wanted)
    if found.shape != wanted.shape:
        return False
    if found.dtype.kind in "OUS":
        return [str(one) for one in found.ravel()] == [str(one) for one in wanted.ravel()]
    if found.dtype == np.uint8 and wanted.dtype.name.startswith("float8"):
        wanted = wanted.view(np.uint8)  # onnxruntime hands these out as their bits
    if found.dtype != wanted.dtype:
        return False
    if found.dtype.kind == "f":
        # The cases' own 1e-7 is finer than what a float32 sum keeps: a share of the largest number is its scale.
        finite = np.abs(wanted[np.isfinite(wanted)].astype(np.float64))
        atol = max(atol, (2e-3 if found.dtype == np.float16 else 1e-5) * float(finite.max(initial=0.0)))
    kind = np.complex128 if found.dtype.kind == "c" else np.float64
    return bool(np.allclose(found.astype(kind), wanted.astype(kind), rtol=rtol, atol=atol, equal_nan=True))


def _words(found, wanted):
    wanted = np.asarray(wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return f"{found.dtype} {found.shape} for {wanted.dtype} {wanted.shape}"
    if found.dtype.kind in "OUSb":
        return f"{found.ravel()[:4]} for {wanted.ravel()[:4]}"
    off = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    worst = float(np.nanmax(off)) if not np.isnan(off).all() else math.nan
    return f"{worst:.3g} off in {int((off > 0).sum())} of {off.size}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "collect":
        collect(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        run(Path(sys.argv[2]), int(sys.argv[3]))
