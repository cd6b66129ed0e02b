"""Differences between schemas, as lines of text."""

import difflib
import json

from grete.payloads.schema_registry.schemas import Schema


def difference(old: Schema | None, new: Schema, subject: str) -> list[str]:
    """Returns the lines of a unified diff; `old` None: the subject has no version yet."""
    before = [] if old is None else schema_lines(old)
    origin = f"{subject} (no version)" if old is None else f"{subject} version {old.version}"
    return list(difflib.unified_diff(before, schema_lines(new), origin, f"{subject} declared", lineterm=""))


def schema_lines(schema: Schema) -> list[str]:
    """Returns a schema as lines: JSON with one property a line, Protobuf as a descriptor in text."""
    if schema.kind == "PROTOBUF":
        from grete.payloads.protobuf_messages import parse_file

        file = parse_file(schema.text, "")
        if file is None:
            return schema.text.splitlines()
        file.ClearField("name")
        return str(file).splitlines()
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False).splitlines()
    except ValueError:
        return schema.text.splitlines()
