"""All rules by id; listing the folder is the registry."""

from advisor.advice.rule import Rule
from advisor.base.registry import members

RULES: dict[str, Rule] = dict(members(__name__, __path__, Rule))
