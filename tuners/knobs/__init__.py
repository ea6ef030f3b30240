"""The folder is the registry: one file, one knob."""

from advisor.members import members
from advisor.tuners.knob import AnyKnob, Knob

KNOBS: dict[str, AnyKnob] = dict(members(__name__, __path__, Knob))
