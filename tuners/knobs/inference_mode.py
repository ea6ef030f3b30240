"""Whether evaluation records what only training needs."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from advisor.profiles.profile import Profile
from advisor.tuners.knob import Change, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch.nn import Module

EVERY_STEP = 1.5  # steps between two evaluations, below which they belong to the training steps


class InferenceMode(Knob[str]):
    """Evaluates with a graph for gradients (`grad`), without one, or in torch's inference mode.

    A graph that nobody uses costs time on each operator and keeps the activations of a whole batch: with it
    evaluations ran at 0.83 to 0.94 of their speed under `no_grad`. `inference_mode` leaves out more
    bookkeeping and gave 1.00 to 1.08 over `no_grad`; what it computes cannot be used in autograd.

    Only forwards of modules in evaluation are covered, or those with gradients off. Where they run in every
    training step, as a teacher does, their results may be meant for autograd, so that is refused. Steps are
    timed without evaluations, so it is tried only when named.
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
        every = profile.run.evaluation_every if profile.run is not None else None
        if every is not None and every < EVERY_STEP:
            raise Refused("a module in evaluation runs in every step, where gradients may pass through it")

    def process(self, value: str) -> None:
        """Nothing yet: it acts from the next evaluation on."""

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
