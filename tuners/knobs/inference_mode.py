"""Whether evaluation records what only training needs."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from advisor.profiles.profile import Profile, RunFacts
from advisor.tuners.evaluating import MOST_S
from advisor.tuners.knob import Change, Config, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch.nn import Module

EVERY_STEP = 1.5  # steps between two evaluations, below which they belong to the training steps


class InferenceMode(Knob[str]):
    """Evaluates with a graph for gradients (`grad`), without one, or in torch's inference mode.

    A graph that nobody uses costs time on each operator and keeps the activations of a whole batch: with it
    evaluations ran at 0.83 to 0.94 of their speed under `no_grad`. `inference_mode` leaves out more
    bookkeeping and gave 1.00 to 1.08 over `no_grad`; what it computes cannot be used in autograd.

    Only forwards of modules in evaluation are covered, or those with gradients off. Where they run in every
    training step, as a teacher does, their results may be meant for autograd, so that is refused.

    Steps are timed without evaluations, so this is compared by whole intervals from one evaluation to the
    next: what is gained is a share of the run. That takes longer than a few steps, so it is tried only when
    named, in one process, and where an evaluation comes at least every 5 s. Where none ran it is refused.
    """

    semantics = Semantics.EXACT
    live = True
    named_only = True

    def values(self) -> list[str]:
        return ["grad", "no_grad", "inference_mode"]

    def present(self, profile: Profile) -> str:
        run = profile.run
        if run is None or run.evaluation_records_graph is None or not run.evaluations:
            raise Refused("no evaluation was seen after the first step")
        return "grad" if run.evaluation_records_graph else "no_grad"

    def choices(self, profile: Profile) -> list[str]:
        present = self.present(profile)
        self.check(present, profile)
        return [present, *(value for value in ("no_grad", "inference_mode") if value != present)]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        run = profile.run
        assert run is not None  # or there is no present setting
        if run.evaluation_every is None:
            raise Refused("one evaluation was seen, and comparing takes the time from one to the next")
        if run.evaluation_every < EVERY_STEP:
            raise Refused("a module in evaluation runs in every step, where gradients may pass through it")
        between_s = _between_s(run, profile)
        if between_s > MOST_S:
            raise Refused(
                f"evaluations come every {between_s:.0f} s, and comparing takes many that are at most "
                f"{MOST_S:.0f} s apart"
            )

    def prepare(self, config: Config, present: Config) -> None:
        """Refuse several ranks, whose steps are counted one by one.

        Raises:
            Refused: There are several.
        """
        if int(config.get("ranks", 1)) > 1:
            raise Refused("evaluations are timed in one process only")

    def evaluation(self, root: "Module", value: str) -> AbstractContextManager[None]:
        """The mode in which one forward in evaluation runs."""
        import torch

        modes: dict[str, type[AbstractContextManager[None]]] = {
            "grad": torch.enable_grad,
            "no_grad": torch.no_grad,
            "inference_mode": torch.inference_mode,
        }
        return modes[value]()

    def change(self, value: str) -> Change:
        mode = {"grad": "enable_grad", "no_grad": "no_grad", "inference_mode": "inference_mode"}[value]
        return Change(f"with torch.{mode}():\n    output = model(input)  # in evaluation")


def _between_s(run: RunFacts, profile: Profile) -> float:
    """Seconds from the end of one evaluation to the end of the next."""
    step_s = profile.phases.step_ms / 1000 if profile.phases is not None else 0.0
    return (run.evaluation_every or 0.0) * step_s + run.evaluation_s / max(1, run.evaluations)
