"""What OpenMP's threads do while they wait for each other."""

import os

from advisor.base.unit import BOTH
from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

VARIABLE = "OMP_WAIT_POLICY"
OWN = (VARIABLE, "GOMP_SPINCOUNT", "KMP_BLOCKTIME")  # each decides how threads wait


class OmpWaitPolicy(Knob[str]):
    """Lets threads that wait sleep, instead of spinning on a core that another thread needs.

    By default a waiting thread spins for a while, which is fastest when every thread has a core of its own.
    With one other busy process two threads came to sit on one core: each waited for the other, and a
    ResNet's step went from 40 ms to between 2000 and 3340 ms. `passive` held it at 100 to 104 ms. On a quiet
    machine spinning wakes faster, so many small operations can get slower.

    With one thread nobody waits and nothing changes. The variable is read when torch is imported.
    """

    semantics = Semantics.EXACT
    units = BOTH
    usual_gain = 0.02

    def values(self) -> list[str]:
        return ["unset", "passive"]

    def present(self, profile: Profile) -> str:
        own = next((name for name in OWN if name in os.environ), None)
        if own is not None:
            raise Refused(f"{own} is set already")
        return "unset"

    def choices(self, profile: Profile) -> list[str]:
        if profile.device.startswith("cuda"):
            raise Refused("the model runs on the GPU")
        return [self.present(profile), "passive"]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)

    def environment(self, value: str) -> dict[str, str]:
        """The variables of a process with this policy."""
        return {VARIABLE: value.upper()} if value == "passive" else {}

    def process(self, value: str) -> None:
        """Look whether OpenMP has been told.

        Raises:
            Refused: torch does not use OpenMP, or the program sets the policy itself.
        """
        import torch

        if not torch.backends.openmp.is_available():
            raise Refused("torch was built without OpenMP")
        if value == "passive" and os.environ.get(VARIABLE) != value.upper():
            raise Refused(f"{VARIABLE} did not reach the process, or the program sets it itself")

    def change(self, value: str) -> Change:
        if value == "unset":
            return Change(f"# start the program without {VARIABLE}")
        return Change("# set before the program starts", self.environment(value))
