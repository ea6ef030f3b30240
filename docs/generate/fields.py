"""The fields of ``result.json``, made of its schema."""

from collections.abc import Mapping
from typing import Any

from text import prose, table

from advisor.result.document import schema

SCHEMA_FILE = "result.schema.json"


def page() -> str:
    """Every part of a result with its fields and their types."""
    document = schema()
    parts = document["$defs"]
    whole = [_name(one) for one in document["anyOf"]]
    lines = [
        "# Fields of result.json",
        f"Made of the schema: [{SCHEMA_FILE}]({SCHEMA_FILE}) (JSON Schema 2020-12), which is also in the "
        "package (`importlib.resources.files('advisor') / 'result.schema.json'`). A document is one of "
        + " or ".join(f"[{name}](#{name.lower()})" for name in whole)
        + ". Readers should let unknown fields pass: newer versions add some.",
    ]
    for name in [*whole, *sorted(set(parts) - set(whole))]:
        lines += _part(name, parts[name])
    return "\n\n".join(lines) + "\n"


def _part(name: str, part: Mapping[str, Any]) -> list[str]:
    lines = [f"## {name}"]
    if part.get("description"):
        lines.append(prose(part["description"]))
    if part.get("enum"):
        lines.append(_type(part))
    required = part.get("required", [])
    rows = [
        (f"`{field}`", _type(about), "always" if field in required else "")
        for field, about in part.get("properties", {}).items()
    ]
    return [*lines, table(("field", "type", "present"), rows)] if rows else lines


def _name(reference: Mapping[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _type(about: Mapping[str, Any]) -> str:
    if "$ref" in about:
        return f"[{_name(about)}](#{_name(about).lower()})"
    if "anyOf" in about:
        return " or ".join(dict.fromkeys(_type(one) for one in about["anyOf"]))
    if "const" in about:
        return f"`{about['const']}`"
    if "enum" in about:
        return ", ".join(f"`{value}`" for value in about["enum"])
    match about.get("type"):
        case "array":
            return f"list of {_type(about.get('items', {}))}"
        case "object":
            inner = about.get("additionalProperties")
            return f"object of {_type(inner)}" if isinstance(inner, Mapping) and inner else "object"
        case str() as name:
            return name
    return "anything"
