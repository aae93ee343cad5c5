"""The published JSON Schemas are those of the models."""

from pathlib import Path

import pytest

from edge_runtime.spec.schemas import published

DOCS = Path(__file__).parents[2] / "docs"
TODO = "write each text of edge_runtime.spec.schemas.published() to docs/, and say in CHANGELOG what changed"


@pytest.mark.parametrize("name", sorted(published()))
def test_published(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == published()[name], TODO


def test_every_schema_is_listed() -> None:
    assert {path.name for path in DOCS.glob("*.schema.json")} == set(published())
