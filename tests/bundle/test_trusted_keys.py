"""The folder of trusted keys: public ones only, small, where not everybody can put one."""

import os
import subprocess
import sys

import pytest

from edge_runtime.bundle import ecdsa
from edge_runtime.bundle.trusted_keys import MAX_KEYS, MAX_PEM_BYTES, load_keys
from edge_runtime.errors import ConfigurationError

PRIVATE, PUBLIC = ecdsa.new_key()


def refused(folder):
    with pytest.raises(ConfigurationError) as caught:
        load_keys(folder)
    line = str(caught.value)
    assert line.isprintable()
    return line


def test_public_keys_by_name_and_nothing_else(tmp_path):
    other = ecdsa.new_key()[1]
    (tmp_path / "b.pub").write_bytes(PUBLIC)
    (tmp_path / "a.pem").write_bytes(other)
    (tmp_path / "README").write_text("whose keys these are")
    (tmp_path / "old.pub.off").write_bytes(PUBLIC)
    assert load_keys(tmp_path) == {"a.pem": other, "b.pub": PUBLIC}
    assert list(load_keys(tmp_path)) == ["a.pem", "b.pub"]


def test_an_empty_folder_trusts_nobody(tmp_path):
    assert load_keys(tmp_path) == {}


def test_the_folder_may_be_a_link(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "a.pub").write_bytes(PUBLIC)
    (tmp_path / "link").symlink_to("keys")
    assert load_keys(tmp_path / "link") == {"a.pub": PUBLIC}


@pytest.mark.parametrize("name", ["a.pub", "a.pem"])
def test_a_private_key_is_told_to_leave(tmp_path, name):
    (tmp_path / name).write_bytes(PRIVATE)
    line = refused(tmp_path)
    assert f"{name}: found a PRIVATE key: whoever reads this device can sign as its owner" in line
    assert "take it off this device" in line
    (tmp_path / name).write_bytes(PUBLIC + ecdsa.new_key(b"secret")[0])
    assert "a PRIVATE key" in refused(tmp_path)


@pytest.mark.parametrize(("data", "said"), [(b"", "0 PEM blocks"), (PUBLIC * 2, "2 PEM blocks"), (b"k", "0 PEM")])
def test_a_file_that_is_no_key(tmp_path, data, said):
    (tmp_path / "a.pub").write_bytes(data)
    assert said in refused(tmp_path)


def test_a_link_is_no_key_wherever_it_leads(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "elsewhere").write_bytes(PUBLIC)
    for target in ("../elsewhere", "nowhere"):
        (tmp_path / "keys" / "a.pub").symlink_to(target)
        assert "a link or something else that is no file" in refused(tmp_path / "keys")
        (tmp_path / "keys" / "a.pub").unlink()


@pytest.mark.skipif(os.name != "posix", reason="a fifo")
def test_a_folder_or_fifo_is_no_key(tmp_path):
    os.mkfifo(tmp_path / "a.pub")
    assert "something else that is no file" in refused(tmp_path)
    (tmp_path / "a.pub").unlink()
    (tmp_path / "a.pub").mkdir()
    assert "something else that is no file" in refused(tmp_path)


def test_a_key_of_many_bytes_is_not_read_to_its_end(tmp_path):
    (tmp_path / "a.pub").write_bytes(PUBLIC + b"\n" * (MAX_PEM_BYTES - len(PUBLIC)))
    assert load_keys(tmp_path)
    with (tmp_path / "a.pub").open("ab") as stream:
        stream.truncate(1 << 40)
    assert f"more than {MAX_PEM_BYTES} bytes" in refused(tmp_path)


def test_more_keys_than_anybody_has(tmp_path):
    for number in range(MAX_KEYS):
        (tmp_path / f"{number}.pub").write_bytes(PUBLIC)
    assert len(load_keys(tmp_path)) == MAX_KEYS
    (tmp_path / "one-more.pub").write_bytes(PUBLIC)
    assert f"{MAX_KEYS + 1} keys" in refused(tmp_path)


@pytest.mark.skipif(os.name != "posix", reason="rights as POSIX has them")
def test_what_everybody_may_write_is_not_trusted(tmp_path):
    (tmp_path / "a.pub").write_bytes(PUBLIC)
    (tmp_path / "a.pub").chmod(0o666)
    assert "a.pub: found rights for every user to write" in refused(tmp_path)
    (tmp_path / "a.pub").chmod(0o644)
    tmp_path.chmod(0o777)
    assert f"{tmp_path}: found rights for every user to write" in refused(tmp_path)


def test_a_folder_that_is_not_there(tmp_path):
    assert "No such file or directory" in refused(tmp_path / "none")
    (tmp_path / "file").write_bytes(PUBLIC)
    assert "Not a directory" in refused(tmp_path / "file")


def test_without_the_extra_one_line_names_it(tmp_path):
    program = (
        "import sys; sys.modules['cryptography'] = None; from pathlib import Path\n"
        "from edge_runtime.bundle.trusted_keys import load_keys\n"
        "try: load_keys(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, capture_output=True, text=True)
    assert ran.stdout.startswith("ConfigurationError signatures: found no working `cryptography`")
