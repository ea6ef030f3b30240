"""Reading a ``result.json`` that somebody wrote: this version, another one, or something else altogether."""

import json
from pathlib import Path

from pydantic import ValidationError

from advisor.base.errors import UsageError, clean
from advisor.result.document import SCHEMA_VERSION, ProfileData, ResultData


def read_document(path: Path) -> ResultData | ProfileData:
    """Read a ``result.json`` of ``tune`` or ``profile``, or the one in a report folder.

    Raises:
        UsageError: No such file, or not a result of advisor.
    """
    file = path / "result.json" if path.is_dir() else path
    name = clean(str(file))
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file", hint="`advisor tune TARGET` writes one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {name}", cause=clean(str(error))) from None
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is not JSON", cause=clean(str(error))) from None
    if not isinstance(data, dict) or "schema_version" not in data:
        raise UsageError(
            f"{name} is not a result of advisor (no schema_version)", hint="`advisor tune TARGET` writes one"
        )
    if data["schema_version"] != SCHEMA_VERSION:
        raise UsageError(
            f"{name} has schema version {clean(str(data['schema_version']))}, this is {SCHEMA_VERSION}",
            hint="upgrade advisor",
        )
    try:
        is_profile = "recommendation" in data and data["recommendation"] is None
        return (ProfileData if is_profile else ResultData).model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{name} is not a result of advisor", where=where, cause=first["msg"]) from None
