"""Each rank trains by itself, and models are averaged every few updates."""

from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Semantics
from advisor.tuners.mechanisms.data_parallel.averaging import average
from advisor.tuners.mechanisms.data_parallel.divided_batch import refuse_undivided
from advisor.tuners.mechanisms.data_parallel.held_bytes import held_bytes, held_state_bytes
from advisor.tuners.mechanisms.data_parallel.sent_bytes import all_reduce
from advisor.tuners.place import HERE
from advisor.tuners.strategy import Build, Strategy

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

PERIOD = 4
CODE = """from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
averager = PeriodicModelAverager(period=4)
...
optimizer.step()
averager.average_parameters(model.parameters())  # before gradients are cleared"""


class LocalSgd(Strategy):
    """Every rank updates its own copy of the model from its share of the batch; at times all are averaged.

    After each `averaging_period` updates every rank gets the mean of all parameters; momenta and other
    state, and statistics of batch norm, stay each rank's own. Between two averages nothing travels, and
    ranks do not wait for each other, so it pays where the network is slow or ranks are unevenly fast.

    At every averaging a rank sends 2 (n-1)/n times the bytes of the parameters (ring all-reduce), so that
    much divided by the period per update: with a period of 4 a quarter of what `ddp` sends. It does not
    overlap with anything.

    What is learnt differs: each update sees 1/n of the batch, and copies drift apart in between. The longer
    the period, the more. It is never recommended by itself, only tried when named, and judged by how fast it
    learns, not by its losses. It ran on two cores; it was not timed.
    """

    semantics = Semantics.TRAINING

    def __init__(self) -> None:
        self._model: Module | None = None
        self._optimizer: Optimizer | None = None
        self._updates = self._averagings = 0

    def check(self, profile: Profile, ranks: int) -> None:
        refuse_undivided(profile)

    def change(self) -> Change:
        return Change(CODE)

    def wrap(self, model: "Module") -> "Module":
        self._model = model
        self._updates = self._averagings = 0
        return model

    def optimizer(self, build: Build, model: "Module") -> "Optimizer":
        self._optimizer = build(model.parameters())
        return self._optimizer

    def updated(self, model: "Module", optimizer: "Optimizer") -> None:
        """Average the models after the last update of a period."""
        self._updates += 1
        if self._updates % self._period == 0:
            average(model.parameters(), self.place.workers, HERE.among_workers)
            self._averagings += 1

    def report(self) -> dict[str, Any]:
        """Bytes sent per update on average, averagings, and bytes held here of parameters and state."""
        if self._model is None or self._optimizer is None:
            return {}
        parameters = list(self._model.parameters())
        averaged = held_bytes(parameter for parameter in parameters if parameter.requires_grad)
        return {
            "bytes_per_step": round(all_reduce(averaged, self.place.workers) / self._period),
            "averagings": self._averagings,
            "averaging_period": self._period,
            "parameter_bytes": held_bytes(parameters),
            "optimizer_state_bytes": held_state_bytes(self._optimizer),
        }

    @property
    def _period(self) -> int:
        return int(self.setting("averaging_period", PERIOD))
