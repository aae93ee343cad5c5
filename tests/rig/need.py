"""Whether a machine has what a test needs: a loud skip on a desk, a failure under CI=true; it installs nothing."""

import os

import pytest


def need(condition: object, what: str) -> None:
    """Go on if ``condition`` holds; else skip naming ``what`` is missing, or fail where CI=true promised to have it."""
    if condition:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"needs {what}, which this machine lacks", pytrace=False)
    pytest.skip(f"needs {what}, which this machine lacks")
