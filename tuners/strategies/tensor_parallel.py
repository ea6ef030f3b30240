"""Layers of a model in parts, on all ranks at once."""

from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Refused, Semantics
from advisor.tuners.mechanisms.data_parallel.divided_batch import SCRIPT
from advisor.tuners.mechanisms.data_parallel.held_bytes import held_bytes
from advisor.tuners.place import HERE
from advisor.tuners.strategy import Build, Loss, Strategy

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

    from advisor.tuners.mechanisms.data_parallel.same_batches import SameBatches
    from advisor.tuners.mechanisms.tensor.linear_groups import LinearGroup
    from advisor.tuners.mechanisms.tensor.sharded import Traffic

CODE = """from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh(device_type, (ranks,))
for block in blocks:  # two linear layers with an activation between them
    parallelize_module(block, mesh, {"first": ColwiseParallel(), "second": RowwiseParallel()})
optimizer = torch.optim.AdamW(model.parameters())  # after dividing"""
ELEMENTWISE = {
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
}  # fmt: skip
"""Optimizers of torch that update each number of a parameter by itself."""
CHANGED_IN_PLACE = "is a view and is being modified inplace"
FUSED = ("Adam", "AdamW")  # whose fused update torch can make on parts
EXCLUDED = {
    ("amp", "fp16"): "under fp16 each rank would skip updates by the gradients of its own part",
    ("low_precision_parameters", "bf16"): "low_precision_parameters changes layers after they were divided",
    ("sparse_embedding", "on"): "sparse gradients cannot be divided among ranks",
}
"""What other changes do that divided layers do not stand."""
BYPASSED = "the step uses something of the model that has been divided; it may only call the model"


class TensorParallel(Strategy):
    """Divides linear layers and the heads of attention among the ranks, which compute each sample together.

    Of two linear layers with an activation between them, every rank holds some columns of the first and the
    same rows of the second: what is in between needs no exchange, and the results are summed over the ranks.
    In attention the heads are divided. Parameters, gradients and optimizer state of these layers are
    DTensors, 1/n of them on each of n ranks; embeddings, norms and everything else are whole on every rank,
    which loads all batches.

    Layers are found by their structure: pairs of linear layers with element-by-element functions between
    them, torch's transformer layers and `MultiheadAttention`, and attention with the names of parts that
    BERT, GPT-2 and many others use, if a copy of the block computes the same in parts. Widths and numbers of
    heads must be divisible by the number of ranks. It is refused where nothing is found.

    Each pair and each attention sums its output over the ranks in forward, and the gradient of its input in
    backward: 2 (n-1)/n times the bytes of these activations each, for every one of them, while nothing else
    can compute. So it pays for wide layers on links within one machine (NVLink), and where one layer does not
    fit. Where queries, keys and values are separate layers of the program, their gradients are summed one by
    one.

    It ran on two cores (gloo); losses were those of one process up to rounding. Dropout inside a pair draws
    other numbers, the same ones on all ranks.
    """

    semantics = Semantics.ROUNDING
    splits_batch = False
    losses = "first"

    def __init__(self) -> None:
        self._model: Module | None = None
        self._traffic: Traffic | None = None
        self._same: SameBatches | None = None
        self._copies = False
        self._groups: list[LinearGroup] = []

    def check(self, profile: Profile, ranks: int) -> None:
        parallel = next((root.parallel for root in profile.roots if root.parallel), None)
        if profile.target_kind == "script":
            raise Refused(SCRIPT)
        if parallel is not None:
            raise Refused(f"the program uses {parallel} itself")
        if any(root.scripted for root in profile.roots):
            raise Refused("the model is scripted or traced, so its layers cannot be replaced")
        for optimizer in profile.optimizers:
            if optimizer.sparse_gradients:
                raise Refused("sparse gradients cannot be divided among ranks")
            if optimizer.name not in ELEMENTWISE:
                raise Refused(_not_elementwise(optimizer.name))

    def change(self) -> Change:
        return Change(CODE)

    def wrap(self, model: "Module") -> "Module":
        import torch
        from torch.distributed.device_mesh import DeviceMesh

        from advisor.tuners.mechanisms.data_parallel.same_batches import SameBatches, share_random_state
        from advisor.tuners.mechanisms.tensor.sharded import Traffic
        from advisor.tuners.mechanisms.tensor.tensor_plan import parallelize

        self._model = None
        if HERE.among_workers is None:
            raise Refused("one process has nobody to divide layers with")
        for (name, value), reason in EXCLUDED.items():
            if self.setting(name, "off") == value:
                raise Refused(reason)
        if self.place.device.startswith("cuda"):
            torch.cuda.set_device(self.place.device)
        mesh = DeviceMesh.from_group(HERE.among_workers, torch.device(self.place.device).type)
        groups = parallelize(model, mesh)
        share_random_state()
        self._traffic = Traffic(model, groups, mesh.size())
        self._same, self._copies, self._groups = SameBatches(), False, groups
        self._model = model
        return model

    def optimizer(self, build: Build, model: "Module") -> "Optimizer":
        """Divided and whole parameters in groups of their own, since fused updates take no mixture.

        Raises:
            Refused: Its update is not known to be element by element, or is fused and not Adam's.
        """
        from advisor.tuners.mechanisms.tensor.sharded import separate

        optimizer = build(model.parameters())
        kind = type(optimizer)
        if kind.__name__ not in ELEMENTWISE or not kind.__module__.startswith("torch.optim."):
            raise Refused(_not_elementwise(kind.__name__))
        fused = self.setting("optimizer_implementation", "") == "fused"
        fused = fused or any(group.get("fused") for group in optimizer.param_groups)
        if fused and kind.__name__ not in FUSED:
            raise Refused(f"torch has no fused update of {kind.__name__} for DTensors")
        separate(optimizer)
        return optimizer

    def forward_backward(self, loss: Loss, model: "Module", batch: Any, divisor: float) -> None:
        """As a process alone does it, on the same batch in all ranks.

        Raises:
            Refused: The ranks were given different batches, or the step uses divided layers by itself.
        """
        assert self._same is not None  # wrapped before
        self._same.check(batch)
        while True:
            try:
                return super().forward_backward(loss, model, batch, divisor)
            except RuntimeError as error:
                if "DTensor" in str(error):
                    raise Refused(f"{BYPASSED} ({str(error).splitlines()[0]})") from error
                if self._copies or CHANGED_IN_PLACE not in str(error):
                    raise
            self._hand_out_copies(model)

    def clip(self, model: "Module", limit: float) -> None:
        """The norm is that of all parts together."""
        from advisor.tuners.mechanisms.tensor.sharded import clip

        clip(model.parameters(), limit, HERE.among_workers)

    def updated(self, model: "Module", optimizer: "Optimizer") -> None:
        """Count what was sent for the first one."""
        assert self._traffic is not None  # wrapped before
        self._traffic.updated()

    def report(self) -> dict[str, Any]:
        """Groups of layers that are divided, bytes held of parameters, and bytes sent per update."""
        if self._model is None or self._traffic is None:
            return {}
        return {
            "divided_groups": len(self._groups),
            "parameter_bytes": held_bytes(self._model.parameters()),
            "bytes_per_step": self._traffic.bytes_per_update,
        }

    def _hand_out_copies(self, model: "Module") -> None:
        from advisor.tuners.mechanisms.tensor.sharded import outputs_apart

        assert self._traffic is not None  # wrapped before
        self._copies = True
        outputs_apart(model, self._groups)
        self._traffic.restart()


def _not_elementwise(name: str) -> str:
    return f"the update of {name} is not known to treat each number by itself, as parts of a layer need"
