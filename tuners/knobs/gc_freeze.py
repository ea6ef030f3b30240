"""Pauses of Python's garbage collector between the steps."""

import gc
from typing import TYPE_CHECKING

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch.optim import Optimizer

EVERY = 50  # updates between two collections by hand (torchtitan's default)


class GcFreeze(Knob[str]):
    """Keeps the collector from searching, again and again, what lives as long as the program.

    `freeze` sets aside all objects alive at the first update: later collections look at new ones only, which
    helps most where a dataset is held as many Python objects. `manual` does so too, switches the
    collector off and collects after every 50 updates instead, so the pauses fall together; where several
    processes train in step, no one then waits for another's pause.

    The numbers stay the same. Frozen objects that form cycles are never given back, and under `manual`
    other cycles stay up to 50 updates longer, with the tensors that hang on them. The gain was not
    measured here; the pauses that were seen bound it.
    """

    semantics = Semantics.EXACT
    usual_gain = 0.02
    live = True
    written = ("gc.freeze",)

    def __init__(self) -> None:
        self._began = False
        self._updates = 0
        self._frozen_before = gc.get_freeze_count()

    def values(self) -> list[str]:
        return ["off", "freeze", "manual"]

    def present(self, profile: Profile) -> str:
        return "off"

    def choices(self, profile: Profile) -> list[str]:
        run = profile.run
        if run is not None and run.wall_s and not run.gc_collections:
            raise Refused("the garbage collector made no pause in the steps that were watched")
        return self.values()

    def ceiling(self, profile: Profile) -> float | None:
        run = profile.run
        return min(1.0, run.gc_s / run.wall_s) if run is not None and run.wall_s else None

    def process(self, value: str) -> None:
        """Undo what an earlier value did; the next update begins with the new one."""
        if self._began:
            gc.unfreeze()
            gc.enable()
            self._began = False
        self._frozen_before = gc.get_freeze_count()

    def step(self, optimizer: "Optimizer", value: str) -> None:
        """Set objects aside at the first update; later collect by hand where that is asked for.

        Raises:
            Refused: The program does so itself.
        """
        if not self._began:
            self._begin(value)
        elif value == "manual":
            self._updates += 1
            if self._updates % EVERY == 0:
                gc.collect()

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("# the garbage collector stays as Python sets it up")
        freeze = "import gc\n\ngc.collect()\ngc.freeze()  # once, before the training loop"
        if value == "freeze":
            return Change(freeze)
        return Change(
            f"{freeze}\n"
            "gc.disable()\n"
            "for step, batch in enumerate(loader):\n"
            "    ...  # the training step\n"
            f"    if (step + 1) % {EVERY} == 0:\n"
            "        gc.collect()"
        )

    def _begin(self, value: str) -> None:
        if not gc.isenabled():
            raise Refused("the program has switched the garbage collector off itself")
        if gc.get_freeze_count() > self._frozen_before:
            raise Refused("the program calls gc.freeze itself")
        gc.collect()  # what is garbage now must not be kept for ever
        gc.freeze()
        if value == "manual":
            gc.disable()
        self._updates = 0
        self._began = True
