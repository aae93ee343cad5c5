"""A wrong provider, option, library or onnxruntime, each as a whole self-test: no service, and one line that names the fix."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.cli import main
from tests.rig.bundles import FROST, manifest_of, write_with_manifest

HEAD = 'schema = "edge-runtime/profile/1"\nname = "odd"\ndescription = "a test"\ninherits = "{}"\n[[providers]]\nname = "{}"\n'
Selftest = Callable[..., tuple[int, str]]
HERE = "generic_x86" if os.uname().machine == "x86_64" else "generic_arm64"
RTX, OPENVINO = "NvTensorRTRTXExecutionProvider", "OpenVINOExecutionProvider"


@pytest.fixture
def selftest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Selftest:
    """Tests a bundle on one provider: the exit code, and what it says on standard error."""

    def call(provider: str, more: str = "", bundle: Path = FROST) -> tuple[int, str]:
        (tmp_path / "odd.toml").write_text(HEAD.format(HERE, provider) + more)
        code = main(["selftest", "--bundle", str(bundle), "--profile", str(tmp_path / "odd.toml")])
        return code, capsys.readouterr().err

    return call


def refused(said: str, check: str) -> str:
    """The one failure a report names, which must be of this check."""
    lines = said.splitlines()
    (failure,) = [line.split(None, 2) for line in lines if line.strip().startswith("FAIL ")]
    assert failure[1] == check, failure
    return said


@pytest.mark.parametrize(
    ("provider", "more", "line"),
    [
        ("CUDAExecutonProvider", "",
         "providers[0].name: found 'CUDAExecutonProvider'; expected CUDAExecutionProvider perhaps; see docs/device_profiles.md"),
        ("CUDAExecutionProvider", 'options = { devce_id = "0" }\n', "has no option 'devce_id': device_id perhaps"),
        ("TensorrtExecutionProvider", 'options = { trt_profile_min_shapes = "x:1x3" }\n',
         "has no option 'trt_profile_min_shapes'"),
        (RTX, "", f"({RTX} without `library`; name the file of its library)"),
        (RTX, 'library = "lib.so"\n', "providers[0].library: found 'lib.so'"),
        ("CUDAExecutionProvider", 'library = "/lib.so"\n', "it is part of an onnxruntime: leave that out"),
    ],
    ids=["provider", "option", "an option of ours", "no library", "a relative one", "a library of none"],
)  # fmt: skip
def test_a_typo_stops_it_before_any_check(selftest: Selftest, provider: str, more: str, line: str) -> None:
    code, said = selftest(provider, more)
    assert code == 78
    assert line in said
    assert said.count("\n") == 1


def test_a_provider_that_is_not_in_this_onnxruntime(tmp_path: Path, selftest: Selftest) -> None:
    bundle = write_with_manifest(FROST, tmp_path / "bundle", _float16)
    code, said = selftest("CUDAExecutionProvider", bundle=bundle)
    assert code == 1
    assert "provider CUDAExecutionProvider: found not in this onnxruntime" in refused(said, "provider")
    assert "install that in place of this one, or name another profile" in said


def _float16(raw: dict[str, object]) -> None:
    """As if its author had proven it on a GPU; nothing is run there."""
    (variant,) = raw["variants"]  # type: ignore[misc]
    del variant["quantization"]
    variant["precision"] = "float16"
    variant["tolerances"] = {"CUDAExecutionProvider": variant["tolerances"]["CPUExecutionProvider"]}


def test_an_int8_bundle_is_not_for_cuda_and_that_is_said_before_any_session(tmp_path: Path, selftest: Selftest) -> None:
    def allow(raw: dict[str, object]) -> None:
        (variant,) = raw["variants"]  # type: ignore[misc]
        variant["tolerances"]["CUDAExecutionProvider"] = variant["tolerances"]["CPUExecutionProvider"]

    bundle = write_with_manifest(FROST, tmp_path / "bundle", allow)
    assert manifest_of(bundle)["variants"][0]["precision"] == "int8"
    code, said = selftest("CUDAExecutionProvider", bundle=bundle)
    assert code == 1
    assert "variant cpu_int8: found int8, and CUDAExecutionProvider has no kernels for it" in refused(
        said, "compatibility"
    )
    assert "have the author add a variant for CUDAExecutionProvider" in said


def test_two_distributions(tmp_path: Path, selftest: Selftest, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "more" / "onnxruntime_gpu-1.31.1.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "more"))
    code, said = selftest("CPUExecutionProvider")
    assert code == 1
    assert "found onnxruntime and onnxruntime-gpu" in refused(said, "onnxruntime")
    assert "pip uninstall onnxruntime onnxruntime-gpu, then install the one the profile names" in said


def _nothing(path: Path) -> None:
    """No file is made."""


def _text(path: Path) -> None:
    path.write_text("no library")


def _link(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def _cut(path: Path) -> None:
    path.write_bytes(b"\x7fELF" + bytes(60))


def _another(path: Path) -> None:
    """A whole library, of something else."""
    import _ctypes

    path.write_bytes(Path(_ctypes.__file__).read_bytes())


def _open_to_all(path: Path) -> None:
    path.write_bytes(b"\x7fELF")
    path.chmod(0o666)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_nothing, "found No such file or directory"),
        (_text, "found no shared library"),
        (_link, "found no regular file"),
        (_cut, "found it does not load ("),
        (_another, "found no provider's library ("),
        (_open_to_all, "found a file that everybody may write"),
    ],
)  # fmt: skip
def test_a_library_that_cannot_be_a_providers(
    tmp_path: Path, selftest: Selftest, make: Callable[[Path], object], words: str
) -> None:
    library = tmp_path / "lib.so"
    make(library)

    def allow(raw: dict[str, object]) -> None:
        (variant,) = raw["variants"]  # type: ignore[misc]
        variant["tolerances"][OPENVINO] = variant["tolerances"]["CPUExecutionProvider"]

    bundle = write_with_manifest(FROST, tmp_path / "bundle", allow)
    code, said = selftest(OPENVINO, f'library = "{library}"\n', bundle=bundle)
    assert code == 1
    assert f"provider's library {library}: {words}" in refused(said, "provider")
