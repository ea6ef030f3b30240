"""The folder is the registry: one file, one kind of edit."""

from advisor.base.registry import members
from advisor.patching.source.edit import Edit

EDITS: dict[str, Edit] = dict(members(__name__, __path__, Edit))
