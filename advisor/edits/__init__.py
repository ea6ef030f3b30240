"""The folder is the registry: one file, one kind of edit."""

from advisor.edit import Edit
from advisor.members import members

EDITS: dict[str, Edit] = dict(members(__name__, __path__, Edit))
