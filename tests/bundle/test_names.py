"""File names: what is allowed stays apart on every system, what is refused is named."""

import pytest

from edge_runtime.bundle.names import name_fault, require_names, shown
from edge_runtime.errors import BundleError


@pytest.mark.parametrize(
    "name", ["manifest.json", "SHA256SUMS", "model.sig", "a", "0", "a" * 100, "com.txt", "console"]
)
def test_a_plain_name_is_allowed(name):
    assert name_fault(name) is None


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            ".",
            "..",
            ".git",
            ".DS_Store",
            "-rf",
            "_x",
            "a b",
            "a/b",
            "a\\b",
            "/etc",
            "a\0",
            "a\n",
            "a:b",
            "é",
            "a\x1b",
        ),
        *("a" * 101, "a.", "CON", "con.json", "Nul", "COM1.onnx", "lpt9", "aux.tar.gz", "\udcff", "\uff11"),
    ],
)
def test_an_odd_name_is_refused_in_one_printable_line(name):
    with pytest.raises(BundleError) as caught:
        require_names([name], "b")
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()


def test_names_apart_only_by_case_are_refused():
    with pytest.raises(BundleError, match=r"manifest\.json and Manifest\.json"):
        require_names(["manifest.json", "Manifest.json"], "b")


def test_a_long_name_is_shown_short():
    assert len(shown("x" * 5000)) < 70
