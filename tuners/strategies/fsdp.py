"""Parameters, gradients and optimizer state divided among all ranks."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.mechanisms.blocks import NO_BLOCKS, repeated_blocks
from advisor.tuners.mechanisms.data_parallel.divided_batch import refuse_special_parameters, refuse_undivided
from advisor.tuners.mechanisms.data_parallel.held_bytes import held_bytes, held_state_bytes
from advisor.tuners.mechanisms.data_parallel.sharding import (
    SCRIPTED,
    Unit,
    clip_shards,
    refuse_unshardable,
    unit_of,
)
from advisor.tuners.place import HERE
from advisor.tuners.strategy import Build, Loss, Strategy

if TYPE_CHECKING:
    from torch.distributed.fsdp import MixedPrecisionPolicy
    from torch.nn import Module
    from torch.optim import Optimizer

CODE = """from torch.distributed.fsdp import fully_shard
for block in blocks:
    fully_shard(block)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())  # after sharding"""
BYPASSED = (
    "the step computes with parameters outside of the model's forward, where they are not gathered; "
    "it may only call the model"
)

EXCLUDED = {
    ("amp", "fp16"): "fp16 divides gradients by hooks on parameters, which fully_shard replaces by others",
    ("channels_last", "on"): "fully_shard takes contiguous parameters only, not those of channels_last",
    ("low_precision_parameters", "bf16"): "parameters cannot change their type once they are sharded",
}
"""What other changes do to the model that a sharded one does not stand."""


class Fsdp(Strategy):
    """Each rank keeps 1/n of every parameter, gradient and optimizer state; whole ones exist while needed.

    FSDP2, `fully_shard`: the parameters of a unit are gathered before its forward, and again before its
    backward if they were given up in between (`reshard_after_forward`); then its gradients are summed so
    that each rank receives its own part, and the optimizer, built after sharding, updates the parts. Units
    are the whole model, or each repeated block and the rest (`fsdp_wrap`); with blocks only one or two are
    whole at a time, and gathering overlaps with computing. With accumulation gradients are reduced after
    every micro-batch, as keeping whole ones would cost the memory that sharding saves.

    Per forward and backward a rank sends (n-1)/n times the bytes of the parameters for each gathering, and
    as much of the gradients (reduce-scatter): 3 (n-1)/n in all with resharding, as stage 3 of the ZeRO paper
    (Rajbhandari and others, 2020), 2 (n-1)/n without, as `ddp`. gloo makes an all-reduce of a reduce-scatter,
    which is (n-1)/n more. So it pays where the model does not fit otherwise, or lets the batch grow.

    On two cores a small convolution network did 1111 to 1240 samples/s, against 1140 to 1302 in one process
    with two threads, large linear layers 5015 to 5167 against 11048 to 12909. Losses were those of one
    process to 1e-7; statistics of batch norm are each rank's own.
    """

    semantics = Semantics.ROUNDING
    written = ("fully_shard",)

    def __init__(self) -> None:
        self._model: Module | None = None
        self._optimizer: Optimizer | None = None
        self._units: list[Unit] = []
        self._micro_batches = self._since_update = 0

    def meaning(self, config: Config) -> Semantics:
        return Semantics.PRECISION if config.get("fsdp_precision") == "bf16" else self.semantics

    def check(self, profile: Profile, ranks: int) -> None:
        refuse_undivided(profile)
        refuse_special_parameters(profile)
        if any(root.scripted for root in profile.roots):
            raise Refused(SCRIPTED)

    def change(self) -> Change:
        return Change(CODE)

    def wrap(self, model: "Module") -> "Module":
        import torch
        from torch.distributed.fsdp import fully_shard

        for (name, value), reason in EXCLUDED.items():
            if self.setting(name, "off") == value:
                raise Refused(reason)
        blocks = repeated_blocks(model) if self.setting("fsdp_wrap", "whole") == "blocks" else None
        if blocks == []:
            raise Refused(NO_BLOCKS)
        refuse_unshardable(model, blocks or ())
        if self.place.device.startswith("cuda"):
            torch.cuda.set_device(self.place.device)  # fully_shard computes on the current device
        reshard = self.setting("reshard_after_forward", "on") == "on"
        self._units = self._units_of(model, blocks or (), reshard)
        options = self._options()
        for block in blocks or ():
            fully_shard(block, reshard_after_forward=reshard, mp_policy=self._policy(), **options)
        # backward begins with the rest beside blocks, so torch keeps it: `None`
        kept = None if blocks and reshard else reshard
        fully_shard(model, reshard_after_forward=kept, mp_policy=self._policy(outermost=True), **options)
        self._model = model
        self._micro_batches = self._since_update = 0
        return model

    def optimizer(self, build: Build, model: "Module") -> "Optimizer":
        self._optimizer = build(model.parameters())
        return self._optimizer

    def micro_batch(self, model: "Module", last: bool) -> AbstractContextManager[Any]:
        """Counts them, for the bytes per update."""
        self._since_update += 1
        if last:
            self._micro_batches, self._since_update = self._since_update, 0
        return nullcontext()

    def forward_backward(self, loss: Loss, model: "Module", batch: Any, divisor: float) -> None:
        """As a process alone does it.

        Raises:
            Refused: The step uses parameters that are not gathered.
        """
        try:
            super().forward_backward(loss, model, batch, divisor)
        except RuntimeError as error:
            if "mixed torch.Tensor and DTensor" not in str(error):
                raise
            raise Refused(BYPASSED) from error

    def clip(self, model: "Module", limit: float) -> None:
        """torch's ``clip_grad_norm_`` knows that gradients are divided, but cannot reduce offloaded ones."""
        if self.setting("fsdp_offload", "off") == "on":
            clip_shards(model.parameters(), limit, self.place.device, HERE.among_workers)
        else:
            super().clip(model, limit)

    def report(self) -> dict[str, Any]:
        """Bytes sent per update, units, and bytes held here of parameters and optimizer state at rest."""
        if self._model is None or self._optimizer is None:
            return {}
        on_cpu = self.place.device == "cpu"
        sent = sum(unit.sent(self.place.workers, gloo=on_cpu) for unit in self._units)
        return {
            "bytes_per_step": round(max(1, self._micro_batches) * sent),
            "units": len(self._units),
            "parameter_bytes": held_bytes(self._model.parameters()),
            "optimizer_state_bytes": held_state_bytes(self._optimizer),
        }

    def _options(self) -> dict[str, Any]:
        """Arguments of ``fully_shard`` that are the same for all units."""
        import torch
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import CPUOffloadPolicy

        assert HERE.among_workers is not None  # a strategy of several ranks has met the others
        mesh = DeviceMesh.from_group(HERE.among_workers, torch.device(self.place.device).type)
        if self.setting("fsdp_offload", "off") == "on":
            return {"mesh": mesh, "offload_policy": CPUOffloadPolicy()}
        return {"mesh": mesh}

    def _policy(self, *, outermost: bool = False) -> "MixedPrecisionPolicy":
        """The types of one unit; the outermost one hands out float32, as autocast does here."""
        import torch
        from torch.distributed.fsdp import MixedPrecisionPolicy

        if not self._reduced_precision:
            return MixedPrecisionPolicy()
        return MixedPrecisionPolicy(
            param_dtype=torch.bfloat16,
            reduce_dtype=torch.float32,
            output_dtype=torch.float32 if outermost else None,
        )

    def _units_of(self, model: "Module", blocks: "Sequence[Module]", reshard: bool) -> list[Unit]:
        """What travels: of each block and of the rest, or of the model as a whole."""
        import torch

        types = (torch.bfloat16, torch.float32) if self._reduced_precision else (None, None)
        again = 2 if reshard else 1
        own = {id(parameter) for block in blocks for parameter in block.parameters()}
        rest = [parameter for parameter in model.parameters() if id(parameter) not in own]
        units = [unit_of(block.parameters(), again, *types) for block in blocks]
        units.append(unit_of(rest, 1 if blocks else again, *types))
        return [unit for unit in units if unit.gathered]

    @property
    def _reduced_precision(self) -> bool:
        return self.setting("fsdp_precision", "off") == "bf16"
