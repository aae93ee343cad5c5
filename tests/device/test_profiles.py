"""Profiles by name, by file and by what the machine is; each mistake is one line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from edge_runtime.device.data import data_folder
from edge_runtime.device.probe import Machine, probe
from edge_runtime.device.profiles import fits, load_profile
from edge_runtime.errors import ConfigurationError
from tests.device import trees

BASE = """
schema = "edge-runtime/profile/1"
name = "base"
description = "a base"
architectures = ["x86_64", "aarch64"]
onnxruntime = "pip install it"
intra_threads = 2
[[providers]]
name = "OpenVINOExecutionProvider"
options = { num_streams = "1" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "profiles"
    place.mkdir()
    (place / "base.toml").write_text(BASE)
    return place


@pytest.fixture
def orin(tmp_path: Path) -> Machine:
    return probe(trees.orin(tmp_path / "orin"))


def add(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.toml").write_text(f'name = "{name}"\n{text}')


def refusal(name: str | None, machine: Machine, folder: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_profile(name, machine, [folder])
    return str(caught.value).replace(str(folder), "DIR")


@pytest.mark.parametrize(
    ("tree", "name"),
    [
        (trees.vnni, "generic_x86"),
        (trees.haswell, "generic_x86"),
        (trees.pi5, "generic_arm64"),
        (trees.orin, "generic_arm64"),
    ],
)
def test_every_machine_has_a_generic_profile(tmp_path: Path, tree: Callable[[Path], Path], name: str) -> None:
    generic = tmp_path / "generic"
    generic.mkdir()
    for path in data_folder("device_profiles").glob("generic_*.toml"):
        (generic / path.name).write_bytes(path.read_bytes())
    assert load_profile(None, probe(tree(tmp_path)), [generic]).name == name


@pytest.mark.parametrize("tree", [trees.vnni, trees.haswell, trees.pi5, trees.orin])
def test_every_machine_finds_a_profile_that_comes_with_the_program(
    tmp_path: Path, tree: Callable[[Path], Path]
) -> None:
    machine = probe(tree(tmp_path))
    assert fits(load_profile(None, machine, [data_folder("device_profiles")]), machine)


@pytest.mark.parametrize("path", sorted(data_folder("device_profiles").glob("*.toml")), ids=lambda path: path.stem)
def test_every_profile_that_comes_with_the_program_is_valid(path: Path) -> None:
    found = load_profile(path.stem, Machine(), [path.parent])
    assert found.name == path.stem
    assert load_profile(str(path), Machine(), []) == found


def test_the_example_of_the_documentation_is_valid(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "device_profiles.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "orchard_gateway.toml").write_text(example)
    machine = probe(trees.pi5(tmp_path / "pi"))
    assert load_profile(None, machine, [tmp_path, data_folder("device_profiles")]).memory_mb == 256


def test_a_child_replaces_its_parents_keys(folder: Path, orin: Machine) -> None:
    add(folder, "child", 'inherits = "base"\nintra_threads = 4\nisa = ["asimddp"]')
    found = load_profile("child", orin, [folder])
    assert (found.name, found.intra_threads, found.description) == ("child", 4, "a base")
    assert found.providers[0].options == {"num_streams": "1"}


def test_the_most_specific_that_fits_is_taken(folder: Path, orin: Machine) -> None:
    add(folder, "named_only", 'inherits = "base"')
    assert load_profile(None, orin, [folder]).name == "base"
    add(folder, "dotprod", 'inherits = "base"\nisa = ["asimddp"]')
    assert load_profile(None, orin, [folder]).name == "dotprod"
    add(folder, "jetson", 'inherits = "base"\nmatch = ["Jetson"]')
    assert load_profile(None, orin, [folder]).name == "jetson"
    add(folder, "orin", 'inherits = "base"\nmatch = ["Xavier", "Jet", "Jetson Orin"]')
    assert load_profile(None, orin, [folder]).name == "orin"
    assert load_profile(None, Machine(architecture="aarch64"), [folder]).name == "base"


def test_an_earlier_folder_hides_a_later_one(folder: Path, tmp_path: Path, orin: Machine) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "base.toml").write_text(BASE.replace("a base", "our base"))
    assert load_profile(None, orin, [own, folder]).description == "our base"


def test_equally_specific_ones_are_not_chosen_between(folder: Path, orin: Machine) -> None:
    add(folder, "one", 'inherits = "base"\nisa = ["asimddp"]')
    add(folder, "two", 'inherits = "base"\nisa = ["asimddp"]')
    assert refusal(None, orin, folder) == (
        "device profile: found 2 that fit equally well: one, two; expected one; name it with `profile` in device.toml"
    )


def test_none_that_fits(folder: Path) -> None:
    assert refusal(None, Machine(architecture="riscv64"), folder) == (
        "device profile: found none that fits this machine (riscv64, base); expected one for its architecture and "
        "features; name one with `profile` in device.toml, or write one: see docs/device_profiles.md"
    )


def test_an_unknown_name_names_the_nearest(folder: Path, orin: Machine) -> None:
    assert refusal("bas", orin, folder) == (
        "profile 'bas': found no profile 'bas'; expected 'base' perhaps; see docs/device_profiles.md"
    )
    assert "expected one of base;" in refusal("zzzzz", orin, folder)


def test_a_cycle_is_refused(folder: Path, orin: Machine) -> None:
    add(folder, "one", 'inherits = "two"')
    add(folder, "two", 'inherits = "one"')
    assert refusal("one", orin, folder) == (
        "DIR/one.toml, inherits: found one -> two -> one; expected a chain of profiles that ends; "
        "remove `inherits` from one of them"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('inherits = "bsae"', "DIR/bad.toml, inherits: found no profile 'bsae'; expected 'base' perhaps;"),
        ('inherits = "base"\nthreads = 2', "DIR/bad.toml, threads: found an unknown key; expected intra_threads;"),
        ('inherits = "base"\nisa = ["avx3"]', "DIR/bad.toml, isa[0]: found 'avx3'; expected 'sse4_1', 'avx2',"),
        ('inherits = "base"\nproviders = [{name = "CPU"}]', "DIR/bad.toml, providers[0].name: found 'CPU'; expected"),
        (
            'inherits = "base"\nproviders = [{name = "OpenVINOExecutonProvider"}]',
            "DIR/bad.toml, providers[0].name: found 'OpenVINOExecutonProvider'; expected OpenVINOExecutionProvider perhaps;",
        ),
        (
            'inherits = "base"\nproviders = [{name = "OpenVINOExecutionProvider", options = {device_typ = "CPU"}}]',
            "DIR/bad.toml, providers[0]: found a mistake (OpenVINOExecutionProvider has no option 'device_typ'",
        ),
        (
            'inherits = "base"\nproviders = [{name = "CPUExecutionProvider", options = {arena = "0"}}]',
            "DIR/bad.toml, providers[0]: found a mistake (CPUExecutionProvider has no option 'arena': it takes none)",
        ),
        (
            'inherits = "base"\nproviders = [{name = "CPUExecutionProvider", allowed_elsewhere = 0.5}]',
            "DIR/bad.toml, providers[0]: found a mistake (allowed_elsewhere with CPUExecutionProvider",
        ),
        (
            'inherits = "base"\nproviders = [{name = "OpenVINOExecutionProvider", options = {cache_dir = "/tmp/x"}}]',
            "DIR/bad.toml, providers[0]: found a mistake (cache_dir is not for a profile to say: write `cache = true` beside",
        ),
        (
            'inherits = "base"\nproviders = [{name = "TensorrtExecutionProvider", options = {trt_engine_cache_prefix = "../x"}}]',
            "DIR/bad.toml, providers[0]: found a mistake (trt_engine_cache_prefix is not for a profile to say",
        ),
        (
            'inherits = "base"\nproviders = [{name = "CPUExecutionProvider", cache = true}]',
            "DIR/bad.toml, providers[0]: found a mistake (cache with CPUExecutionProvider, which keeps nothing",
        ),
        (
            'inherits = "base"\nproviders = [{name = "CPUExecutionProvider"}, {name = "CPUExecutionProvider"}]',
            "DIR/bad.toml, providers: found an array; expected each once; CPUExecutionProvider stands there twice",
        ),
        ('inherits = "base"\nproviders = []', "DIR/bad.toml, providers: found nothing; expected at least 1;"),
        ('inherits = "base"\nintra_threads = "2"', "DIR/bad.toml, intra_threads: found '2'; expected an integer;"),
        ("isa = [", "DIR/bad.toml, "),
    ],
)
def test_a_wrong_profile_is_one_line(folder: Path, orin: Machine, text: str, message: str) -> None:
    add(folder, "bad", text)
    line = refusal("bad", orin, folder)
    assert line.startswith(message)
    assert "\n" not in line


def test_a_profile_is_called_as_its_file(folder: Path, orin: Machine) -> None:
    (folder / "other.toml").write_text(BASE)
    assert refusal("other", orin, folder) == (
        "DIR/other.toml, name: found 'base'; expected 'other'; name it as its file"
    )


def test_a_file_that_is_not_there(folder: Path, orin: Machine) -> None:
    assert refusal(str(folder / "none.toml"), orin, folder) == (
        "profile DIR/none.toml: found No such file or directory; expected a readable TOML file; "
        "correct the path, or name a profile that comes with the program"
    )
