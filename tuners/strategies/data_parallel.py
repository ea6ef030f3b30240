"""One process drives several GPUs."""

from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.mechanisms.data_parallel.divided_batch import SCRIPT
from advisor.tuners.mechanisms.data_parallel.wrapped_calls import only_called
from advisor.tuners.strategy import Loss, Strategy

if TYPE_CHECKING:
    from torch.nn import Module


class DataParallel(Strategy):
    """One process copies the model to every GPU at each step, and each computes a share of the batch.

    `nn.DataParallel` sends all parameters from the first GPU to each other one before every forward, gathers
    the outputs there, and adds the gradients up there: 2 (n-1) times the bytes of the parameters through one
    device. Python drives all GPUs from threads of one process, which take turns. `ddp` sends less, while
    backward still runs, from a process for each GPU; torch advises it even on one machine. This is for seeing
    by how much. Without GPUs the wrapper only calls the model, so it is not tried there; it was not
    measured. Batch norm takes its statistics from each GPU's share, which is another training.
    """

    semantics = Semantics.ROUNDING
    splits_batch = False
    losses = "first"

    def __init__(self) -> None:
        self._devices: list[int] = []
        self._bytes = 0

    def check(self, profile: Profile, ranks: int) -> None:
        if profile.target_kind == "script":
            raise Refused(SCRIPT)
        parallel = next((root.parallel for root in profile.roots if root.parallel), None)
        if parallel is not None:
            raise Refused(f"the program uses {parallel} itself")
        _require_two(len(profile.machine.gpus))
        if not profile.device.startswith("cuda"):
            raise Refused("the program trains on the CPU")

    def change(self) -> Change:
        return Change("model = torch.nn.DataParallel(model)  # in one process, on cuda:0")

    def wrap(self, model: "Module") -> "Module":
        import torch

        if self.place.workers > 1:
            raise Refused("nn.DataParallel is one process for all GPUs: that needs ranks=1")
        _require_two(torch.cuda.device_count())
        parameters = list(model.parameters())
        first = {tensor.device for tensor in [*parameters, *model.buffers()]}
        if len(first) != 1 or next(iter(first)).type != "cuda":
            raise Refused("nn.DataParallel needs the whole model on one GPU")
        own = next(iter(first)).index
        self._devices = [own, *(number for number in range(torch.cuda.device_count()) if number != own)]
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._bytes = sum(each.nbytes for each in [*parameters, *model.buffers(), *trained])
        return torch.nn.DataParallel(model, device_ids=self._devices)

    def forward_backward(self, loss: Loss, model: "Module", batch: Any, divisor: float) -> None:
        """As on one device.

        Raises:
            Refused: The model returns its loss, of which there is one for each device.
        """
        try:
            with only_called(model):
                super().forward_backward(loss, model, batch, divisor)
        except ValueError as error:
            if f"tensor(shape [{len(self._devices)}])" not in str(error):
                raise
            raise Refused("the model returns its loss, of which there is one for each GPU") from error

    def report(self) -> dict[str, Any]:
        """Bytes between the GPUs per forward and backward: the model to each other one, gradients back."""
        if not self._devices:
            return {}
        return {"bytes_per_step": (len(self._devices) - 1) * self._bytes, "devices": len(self._devices)}


def _require_two(gpus: int) -> None:
    if gpus < 2:
        raise Refused(f"nn.DataParallel needs two GPUs, and here {'is 1' if gpus else 'are 0'}")
