import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from edge_runtime import author
from edge_runtime.author.build_command import main, record_path
from edge_runtime.errors import BundleError, ConfigurationError
from tests.author.conftest import Pack


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_the_command_and_the_function_give_the_same_bytes(pack: Pack, tmp_path: Path, precision: str) -> None:
    pack.edit('"int8"', f'"{precision}"')
    by_command, by_function = tmp_path / "command", tmp_path / "function"
    assert (
        main(
            Namespace(
                contract=str(pack.contract), out=str(by_command), record=None, json=False, evidence=None, validate=None
            )
        )
        == 0
    )
    returned = author.build_bundle(pack.contract, out=by_function)
    assert returned == files_in(by_command) == files_in(by_function)
    assert "SHA256SUMS" in returned
    assert record_path(by_function).read_bytes() == record_path(by_command).read_bytes()
    assert author.build_bundle(str(pack.contract), record=record_path(by_command)) == returned


def test_without_out_nothing_is_written(pack: Pack, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    assert author.build_bundle(pack.contract)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_failed_gate_is_one_line_and_writes_nothing(pack: Pack, tmp_path: Path) -> None:
    pack.edit("mean = [20.0, 50.0]", "mean = [21.0, 50.0]")
    with pytest.raises(BundleError, match=r"preprocess: found a tensor 0\.1 off") as caught:
        author.build_bundle(pack.contract, out=tmp_path / "made")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "made").exists()
    assert not record_path(tmp_path / "made").exists()


def test_bytes_that_do_not_come_out_again_are_refused(pack: Pack, tmp_path: Path) -> None:
    author.build_bundle(pack.contract, out=tmp_path / "made")
    pack.edit('description = "two', 'description = "Two')
    with pytest.raises(BundleError, match="contract has changed"):
        author.build_bundle(pack.contract, record=record_path(tmp_path / "made"))


def test_a_contract_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        author.build_bundle(tmp_path / "contract.toml")


def test_the_functions_cost_nothing_until_they_are_used() -> None:
    code = "import sys, edge_runtime.author; sys.exit('numpy' in sys.modules or 'onnx' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = author.nothing
