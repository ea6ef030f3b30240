"""What every document of advisor begins with, where it is filled, and how a document is written.

No NaN or Infinity is ever written.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

import advisor
from advisor.base.errors import clean
from advisor.base.redaction import without_secrets
from advisor.base.settings import TargetRequest

SCHEMA_VERSION = 1

Finite = Annotated[float, Field(allow_inf_nan=False)]


class Record(BaseModel):
    """A part of a document. Unknown fields of newer minor versions are kept."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, ser_json_inf_nan="null")


class Target(Record):
    """What was run. ``launches`` counts the processes started for it."""

    path: str
    kind: Literal["script", "workload", "trace", "objects"]
    args: list[str] = []
    digest: str = ""
    launches: int = 0


class Header(Record):
    """What every document begins with."""

    ascii_only: ClassVar[bool] = False  # for what is only printed: any stream can carry it

    schema_version: Literal[1] = 1
    advisor_version: str

    def to_json(self) -> str:
        """The document as text: UTF-8 safe (lone surrogates escaped), indented, with a final newline."""
        plain = _writable(self.model_dump(by_alias=True))  # its JSON mode refuses lone surrogates
        return json.dumps(plain, indent=2, ensure_ascii=self.ascii_only, allow_nan=False) + "\n"


def header() -> dict[str, Any]:
    """The fields of ``Header`` in a document made here."""
    return {"advisor_version": advisor.__version__}


def header_of_run(
    command: Sequence[str], target: Target, machine: Mapping[str, Any], seed: int | None = None
) -> dict[str, Any]:
    """The fields that begin the document of a run that ends now; secrets in ``command`` are hidden."""
    return {
        **header(),
        "command": without_secrets(command),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "target": target,
        "machine": machine,
        "seed": seed,
    }


def target_of(request: TargetRequest, *, digest: str, launches: int) -> Target:
    """The program that was run, secrets in its arguments hidden."""
    args = without_secrets(request.args)
    return Target(path=request.name, kind=request.program, args=args, digest=digest, launches=launches)


def _writable(value: Any) -> Any:
    """What JSON can hold: lone surrogates become ``\\xff`` escapes, NaN and Infinity null."""
    if isinstance(value, str):
        lone = not value.isascii() and any(0xD800 <= ord(c) <= 0xDFFF for c in value)
        return clean(value, limit=1_000_000) if lone else value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    return value
