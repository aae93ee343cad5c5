"""The JSON Schemas this project publishes in docs/, made from the models themselves; it writes no file."""

import json

from pydantic import BaseModel

from edge_runtime.spec.manifest import Manifest
from edge_runtime.spec.report_file import ReportFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def published() -> dict[str, str]:
    """The text of each schema, by its file name in docs/."""
    return {
        "manifest.schema.json": _text(Manifest, "manifest.json of an edge-runtime bundle, version 1"),
        "report.schema.json": _text(ReportFile, "report of an edge-runtime self-test, version 1"),
    }


def _text(model: type[BaseModel], title: str) -> str:
    schema = {"$schema": _DIALECT} | model.model_json_schema(by_alias=True) | {"title": title}
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
