"""All rules by id; listing the folder is the registry."""

from advisor.members import members
from advisor.rule import Rule

RULES: dict[str, Rule] = dict(members(__name__, __path__, Rule))
