"""The registry of cost laws: one file each, with its formula and its source."""

from advisor.base.registry import members
from advisor.planning.law import Law

LAWS: dict[str, Law] = dict(members(__name__, __path__, Law))
