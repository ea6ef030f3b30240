"""Knobs that change nothing, for each way of comparing: what a replay is made with."""

from advisor.tuners.comparing.ways import BATON, LIVE, WINDOWS
from advisor.tuners.knob import AnyKnob, Value
from advisor.tuners.knobs.placebo import Placebo

BUDGET_S = 180.0  # of a replay, simulated
BASE: dict[str, Value] = {"placebo": "off"}
CANDIDATE: dict[str, Value] = {"placebo": "on"}


class Restarted(Placebo):
    """Changes nothing, in a process of its own."""

    live = False


class Loading(Restarted):
    """Changes nothing, compared as what changes the loading of data."""

    loading = True


NAMES = ("placebo", "placebo_2", "placebo_3")
PLACEBOS: dict[str, dict[str, AnyKnob]] = {
    LIVE: {name: Placebo() for name in NAMES},
    BATON: {name: Restarted() for name in NAMES},
    WINDOWS: {name: Loading() for name in NAMES},
}
