"""The skip is loud and the failure is one: what stands between the tests and the third-party folder."""

import pytest

from tests.conformance.third_party import VARIABLE, third_party


@pytest.fixture
def shared(tmp_path, monkeypatch):
    folder = tmp_path / "shared"
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder


@pytest.mark.parametrize("ci", ["", "true"])
def test_without_the_folder_it_is_a_skip_that_says_which(shared, monkeypatch, ci):
    monkeypatch.setenv("CI", ci)
    with pytest.raises(pytest.skip.Exception, match=f"{shared} is not there"):
        third_party("models", "mnist.onnx")


def test_a_folder_without_the_file_is_a_skip_on_a_desk_and_a_failure_under_ci(shared, monkeypatch):
    (shared / "third_party").mkdir(parents=True)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="cannot be read"):
        third_party("mnist.onnx")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"mnist\.onnx cannot be read: No such file"):
        third_party("mnist.onnx")


def test_a_file_and_a_folder_that_can_be_read_are_given(shared):
    (shared / "third_party" / "nab").mkdir(parents=True)
    (shared / "third_party" / "nab" / "a.csv").write_text("x")
    assert third_party("nab", "a.csv").read_text() == "x"
    assert third_party("nab").is_dir()
