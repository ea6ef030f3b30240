"""The folder is the registry: one file, one knob."""

from advisor.base.registry import members
from advisor.tuners.knob import AnyKnob, Knob

KNOBS: dict[str, AnyKnob] = dict(members(__name__, __path__, Knob))
