import pytest

from edge_runtime.flow.printable import printable_share


@pytest.mark.parametrize(
    ("data", "share"), [(b"", 1.0), (b"1.5\t2\r\n", 1.0), (b"\x80\xff\x00\x1b", 0.0), (b"ab\xfe\xff", 0.5)]
)
def test_share(data, share):
    assert printable_share(data) == share
