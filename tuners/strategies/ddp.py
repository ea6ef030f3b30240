"""A whole model on every rank; gradients are averaged during backward."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import Profile
from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.mechanisms.data_parallel.compression import HOOKS, collectives, register, sent_by
from advisor.tuners.mechanisms.data_parallel.divided_batch import refuse_dividing_batch
from advisor.tuners.mechanisms.data_parallel.missing_gradients import average_gradients
from advisor.tuners.mechanisms.data_parallel.sent_bytes import all_gather
from advisor.tuners.mechanisms.data_parallel.uneven import equal_or_joined
from advisor.tuners.mechanisms.data_parallel.wrapped_calls import only_called
from advisor.tuners.place import HERE
from advisor.tuners.strategy import Loss, Strategy

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

CODE = """torch.distributed.init_process_group()  # in each process that torchrun starts
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])  # no device_ids on a CPU
loader = DataLoader(dataset, batch_size // world_size, sampler=DistributedSampler(dataset))"""
OWN_BUCKETS = 25  # MiB: torch's own, with a first bucket of 1 MiB, if the argument is left out
MOST_PLACES = 2**31 - 1
NO_PARAMETER = "no parameter of the model is trained"
NO_SPARSE = "NCCL cannot average sparse gradients"
RAISED = {
    "static_graph set to True": "static_graph needs the same parameters to get gradients in every step",
    "Expected to have finished reduction in the prior iteration": (
        "some parameters get a gradient in some steps only: that needs find_unused_parameters=on"
    ),
    "Expected to mark a variable ready only once": (
        "a parameter gets several gradients in one backward (reentrant checkpointing): "
        "that needs static_graph=on"
    ),
}
"""What DistributedDataParallel says of models that it cannot train as it was made, and what that means."""


class Ddp(Strategy):
    """Each rank has the whole model and a share of the batch; gradients are averaged while backward runs.

    `DistributedDataParallel` gathers gradients in buckets and sends each when it is full, so that sending
    overlaps with the rest of backward; all ranks then make the same update. A rank sends 2 (n-1)/n times the
    bytes of the gradients per update (ring all-reduce), or less with a `communication_hook`, and the buffers
    of the model (batch norm) are broadcast from the first rank. It pays where backward takes longer than
    sending.

    The first update averages gradients after backward: it shows whether all parameters get one. If not,
    `find_unused_parameters` is switched on, which walks the graph in every step; otherwise it stays off.
    Under `static_graph` torch finds them itself.

    On two cores, a small convolution network made 1206 to 1308 samples/s with two ranks and 1140 to 1302 with
    one process of two threads; large linear layers 6621 to 7181 against 11048 to 12909. Losses were those of
    one process to 1e-7. Batch norm takes its statistics from each rank's share, which is another training.
    """

    semantics = Semantics.ROUNDING
    written = ("distributeddataparallel",)

    def __init__(self) -> None:
        self._model: Any = None
        self._watching = False  # whether all parameters get gradients is not known yet
        self._begun = False  # gradients have been exchanged
        self._exchanges = 0  # so far in the update under way
        self._per_update = 1

    def meaning(self, config: Config) -> Semantics:
        return HOOKS[str(config.get("communication_hook", "none"))]

    def check(self, profile: Profile, ranks: int) -> None:
        refuse_dividing_batch(profile)

    def change(self) -> Change:
        return Change(CODE)

    def wrap(self, model: "Module") -> "Module":
        from torch.nn.parallel import DistributedDataParallel

        device = self._refuse(model)
        size = int(self.setting("bucket_cap_mb", OWN_BUCKETS))
        unused = self.setting("find_unused_parameters", "auto") == "on"
        static = self.setting("static_graph", "off") == "on"
        self._model = DistributedDataParallel(
            model,
            device_ids=[device] if device.type == "cuda" else None,
            process_group=HERE.among_workers,
            bucket_cap_mb=None if size == OWN_BUCKETS else size,
            find_unused_parameters=unused,
            gradient_as_bucket_view=self.setting("gradient_as_bucket_view", "off") == "on",
            static_graph=static,
        )
        if device.type == "cpu":  # reading a clock; on a GPU it would wait for the device
            self._model._set_ddp_runtime_logging_sample_rate(1)
        self._begun, self._exchanges, self._per_update = False, 0, 1
        self._watching = not unused and not static
        if not self._watching:
            register(self._model, self._hook, HERE.among_workers)
        wrapped: Module = self._model
        return wrapped

    def micro_batch(self, model: Any, last: bool) -> AbstractContextManager[Any]:
        """Gradients are exchanged after the last one only, unless ``no_sync`` is off.

        Under ``static_graph`` the very first one must be exchanged (pytorch #143580).
        """
        if self._watching:
            return self._first_update(model, last)
        quiet = not last and self._begun and self.setting("no_sync", "on") == "on"
        self._begun = True
        self._exchanges += not quiet
        if last:
            self._per_update, self._exchanges = self._exchanges, 0
        return model.no_sync() if quiet else nullcontext()

    def forward_backward(self, loss: Loss, model: "Module", batch: Any, divisor: float) -> None:
        """As a process alone does it.

        Raises:
            Refused: DistributedDataParallel, as it was made, cannot train this model.
        """
        try:
            with only_called(model):
                super().forward_backward(loss, model, batch, divisor)
        except RuntimeError as error:
            for text, reason in RAISED.items():
                if text in str(error):
                    raise Refused(reason) from error
            raise

    def epoch(
        self, model: "Module", optimizer: "Optimizer", batches: int | None = None
    ) -> AbstractContextManager[Any]:
        """Around one pass.

        The sampler deals out equally many samples, so all workers have as many batches, unless their
        datasets differ: only ``batches`` can tell.

        Args:
            model: What ``wrap`` returned.
            optimizer: What ``optimizer`` returned.
            batches: How many this worker has; as many as the others where ``None``.
        """
        if batches is None:
            return nullcontext()
        return equal_or_joined(model, optimizer, batches, HERE.among_workers)

    def report(self) -> dict[str, Any]:
        """Bytes sent per update (mean over the ranks), how they travel, and the time that nothing hides.

        The bytes of one exchange are those of ``sent_by``, and (n-1)/n times those of the buffers, without
        the heads of messages. Sparse gradients have no fixed size, so then there is no figure.
        """
        if self._model is None:
            return {}
        sizes = _buckets(self._model)
        told = {
            "buckets": len(sizes),
            "collectives_per_update": self._per_update * collectives(self._hook, len(sizes)),
            "communication_hook": self._hook,
            "exchanges_per_update": self._per_update,
            "find_unused_parameters": bool(self._model.find_unused_parameters),
        }
        exposed = _exposed_ms(self._model)
        if exposed is not None:
            told["exposed_communication_ms"] = exposed * self._per_update
        if not _has_sparse(self._model):
            trained = _trained(self._model)
            sent = sent_by(self._hook, self.place.workers, trained, sizes)
            sent += all_gather(sum(each.nbytes for each in self._model.buffers()), self.place.workers)
            told["bytes_per_step"] = round(self._per_update * sent)
        return told

    @property
    def _hook(self) -> str:
        return str(self.setting("communication_hook", "none"))

    @contextmanager
    def _first_update(self, model: Any, last: bool) -> Iterator[None]:
        """A micro-batch of the first update, after the last of which gradients are averaged by ourselves."""
        with model.no_sync():
            yield
        if not last:
            return
        self._watching, self._begun = False, True
        if average_gradients(_trained(model), HERE.among_workers):
            model.find_unused_parameters = True
            model.__setstate__(model.__getstate__())  # builds the reducer anew, as after unpickling
        model.require_forward_param_sync = True  # buffers of this update are still each rank's own
        register(model, self._hook, HERE.among_workers)

    def _refuse(self, model: "Module") -> "torch.device":
        """The device of the model.

        Raises:
            Refused: It cannot be trained as the settings ask.
        """
        parameters, hook = _trained(model), self._hook
        if self.place.workers == 1:
            raise Refused("a process alone has no others to average gradients with")
        if not parameters:
            raise Refused(NO_PARAMETER)
        devices = {parameter.device for parameter in model.parameters()}
        if len(devices) > 1:
            raise Refused(f"the model lies on several devices ({', '.join(sorted(map(str, devices)))})")
        device = devices.pop()
        if _has_sparse(model) and hook != "none":
            raise Refused(f"sparse gradients cannot be sent by the communication hook {hook}")
        if _has_sparse(model) and device.type == "cuda":
            raise Refused(NO_SPARSE)
        if hook == "bf16" and device.type != "cuda":
            raise Refused("gloo has no communication hook for bf16: torch asks for NCCL 2.10 or later")
        if hook == "powersgd" and any(not parameter.dim() for parameter in parameters):
            raise Refused("PowerSGD takes no parameters without dimensions")
        if hook == "topk" and sum(parameter.numel() for parameter in parameters) > MOST_PLACES:
            raise Refused(f"top-k numbers at most {MOST_PLACES} values")
        return device


def _trained(model: "Module") -> "list[Tensor]":
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _has_sparse(model: "Module") -> bool:
    """Whether a module asks for sparse gradients; DistributedDataParallel looks at no others."""
    from torch.nn import Embedding, EmbeddingBag

    return any(module.sparse for module in model.modules() if isinstance(module, (Embedding, EmbeddingBag)))


def _exposed_ms(model: Any) -> float | None:
    """Milliseconds that an exchange goes on after backward has computed its last gradient.

    As torch logs them: of the first ten exchanges, and of every one on a CPU (``wrap``). Waiting for the
    slowest rank is among them. ``None`` where it logged none.
    """
    logged = model._get_ddp_logging_data()
    sending = logged.get("avg_backward_comm_time") or 0
    if sending <= 0:
        return None
    return max(0.0, float(sending - logged.get("avg_backward_compute_comm_overlap_time", 0)) / 1e6)


def _buckets(model: Any) -> list[int]:
    """Values in each bucket, from the sizes that torch logs; they change once, after the first step."""
    logged = model._get_ddp_logging_data()
    sizes = logged.get("rebuilt_bucket_sizes") or logged["bucket_sizes"]
    trained = _trained(model)
    per_value = sum(each.nbytes for each in trained) / sum(each.numel() for each in trained)
    return [round(int(size) / per_value) for size in str(sizes).split(",")]
