"""Several ranks under a script that knows nothing of them: a scaling estimate, and nothing more.

Each rank runs the whole script. They meet when torch is imported; weights are made equal and gradients
averaged behind its back. Every rank evaluates and saves, batch and learning rate mean something else, and
data that no DataLoader deals out is told apart by random seeds alone: so this says what throughput to expect
from ``ddp``, and is never safe to apply as it is.
"""

import gc
import os
import random
import sys
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.patches import untraced
from advisor.profiles.hooks.tensors import each_tensor
from advisor.tuners.knob import Refused
from advisor.tuners.knobs import KNOBS
from advisor.tuners.knobs.strategy import Strategy
from advisor.tuners.place import HERE, Place
from advisor.tuners.strategy_knob import StrategySetting, StrategySwitch
from advisor.tuners.trial.rank_environment import LOOPBACK, RANK_VARIABLES

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module, Parameter
    from torch.optim import Optimizer

LOOKS = 3  # batches compared: the first may have been drawn before every rank had a seed of its own
SAMPLE = 65_536  # elements of a tensor that are compared
NUMPY_SEEDS = 2**32  # numpy accepts seeds below this
SAME_DATA = "every rank reads the same data: the script deals it out itself, without a DataLoader of torch"
NOTHING_TO_AVERAGE = (
    "it calls no module that could be wrapped, and has no optimizer whose gradients to average"
)


class OwnRanks(Strategy):
    """For a script that makes a process group itself: it is let alone, and must have made one."""

    def __init__(self) -> None:
        self._is_known = False

    def process(self, value: str) -> None:
        """Take this process's cores; threads come from its environment, as under ``torchrun``."""
        if HERE.place.cpus:
            os.sched_setaffinity(0, HERE.place.cpus)

    def loader(self, arguments: dict[str, Any], value: str) -> None:
        """The script divides its data."""

    def backward(self, loss: "Tensor", value: str) -> "Tensor":
        """The first one comes after the group was made."""
        if not self._is_known:
            import torch.distributed as dist

            ranks = dist.get_world_size() if dist.is_initialized() else 1
            if ranks != HERE.place.workers:
                raise Refused(f"the script makes a process group of {ranks} under {HERE.place.workers} ranks")
            self._is_known = True
        return loss


class LeftToTheScript(StrategySwitch):
    """Any setting of a strategy, below a script: nothing of ours makes the wrapper that would read it."""

    strategies = ()

    def process(self, value: str) -> None:
        """Decline, so that it is not measured as if it acted."""
        raise Refused(
            "it is read where a workload's model is wrapped: a script sets it where it wraps its own"
        )


UNREAD = {name: LeftToTheScript() for name, knob in KNOBS.items() if isinstance(knob, StrategySetting)}


class ScriptRanks(Strategy):
    """For a script that trains alone: the knob ``strategy``, acting on an unmodified script.

    The first root that owns what all optimizers update is wrapped in DistributedDataParallel. Where there is
    none (a GAN, several parts under one optimizer, parameters that get no gradient) gradients are averaged
    before each update, without overlap.
    """

    def __init__(self) -> None:
        self._chosen = False
        self._wrapped: Module | None = None
        self._reduced: frozenset[int] = frozenset()  # parameters that the wrapper takes care of
        self._verified = False
        self._shared: set[int] = set()
        self._looks = LOOKS
        self._equal = 0
        self._sees_batches = False

    def process(self, value: str) -> None:
        """Meet the others, and let the script believe that it is alone."""
        if value != "ddp":
            raise Refused(f"{value} cannot be laid under a script; ddp can be estimated")
        meet(HERE.place)
        hide_ranks(os.environ)
        mute(HERE.place)
        super().process(value)

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Refuse what evaluates the loss differently often on each rank."""
        if type(optimizer).__name__ == "LBFGS":
            raise Refused("LBFGS evaluates the loss as often as each rank's own data asks for")

    def call(self, function: Callable[..., Any], root: "Module", value: str) -> Callable[..., Any]:
        """Stand around a root's forward; the first one that owns everything is wrapped."""
        import torch

        wraps = not self._chosen and self._choose(root)
        if wraps:
            self._wrapped = _distributed(root, function)
        is_grad_enabled = torch.is_grad_enabled

        def forward(*args: Any, **kwargs: Any) -> Any:
            if not (root.training and is_grad_enabled()):
                return function(*args, **kwargs)
            if self._looks:
                self._look((args, kwargs))
            wrapped = self._wrapped if wraps else None
            return function(*args, **kwargs) if wrapped is None else wrapped(*args, **kwargs)

        return untraced(forward)

    def backward(self, loss: "Tensor", value: str) -> "Tensor":
        """The first batches are known: they must differ between ranks."""
        if not self._chosen:
            self._choose(None)
        if self._looks and not self._sees_batches:
            self._compare(digest((loss,)) or 0)
        if self._equal == LOOKS:
            raise Refused(SAME_DATA)
        return loss

    def gradients(self, optimizer: "Optimizer", value: str) -> None:
        """Average what no wrapper averages."""
        if self._wrapped is not None and not self._verified:
            self._verify(self._wrapped)
        trained = [each for each in _parameters(optimizer) if each.requires_grad]
        left = [each for each in trained if id(each) not in self._reduced]
        if not left:
            return
        if id(optimizer) not in self._shared:
            self._shared.add(id(optimizer))
            if self._wrapped is None:
                broadcast(left)
        average(left, HERE.place.workers)

    def _choose(self, root: "Module | None") -> bool:
        """Decide once how gradients are averaged; whether by a wrapper of this root."""
        self._chosen = True
        owned = {id(parameter) for each in optimizers() for parameter in _parameters(each)}
        inside = frozenset(map(id, root.parameters())) if root is not None else frozenset()
        if root is None and not owned:
            raise Refused(NOTHING_TO_AVERAGE)
        wraps = root is not None and owned <= inside
        if root is not None:
            broadcast([*root.parameters(), *root.buffers()])
        reseed(HERE.place.rank)
        if wraps:
            self._reduced = inside
        return wraps

    def _verify(self, wrapped: Any) -> None:
        """After the first backward, which a wrapped model whose parameters lack gradients never ends."""
        import torch
        import torch.distributed as dist

        self._verified = True
        lacks = any(each.requires_grad and each.grad is None for each in wrapped.parameters())
        anywhere = torch.tensor(int(lacks))
        dist.all_reduce(anywhere, dist.ReduceOp.MAX)
        if anywhere.item():
            del (
                wrapped.reducer,
                wrapped.logger,
            )  # with them go its hooks, which wait for the missing gradients
            self._wrapped, self._reduced = None, frozenset()

    def _look(self, batch: Any) -> None:
        mark = digest(batch)
        if mark is not None:
            self._sees_batches = True
            self._compare(mark)

    def _compare(self, mark: int) -> None:
        """Count the batches that two ranks have in common; every rank comes to the same count."""
        import torch
        import torch.distributed as dist

        self._looks -= 1
        marks = [torch.zeros(1, dtype=torch.int64) for _ in range(HERE.place.workers)]
        dist.all_gather(marks, torch.tensor([mark]))
        self._equal += len({int(each) for each in marks}) < HERE.place.workers


def meet(place: Place) -> None:
    """Make the process group of all ranks; returns when they are there.

    CPU tensors go over gloo in any case: a script may train on the CPU of a machine with GPUs.
    """
    from datetime import timedelta

    import torch.distributed as dist

    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        os.environ.setdefault(name, LOOPBACK)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if place.device.startswith("cuda") else "gloo",
        init_method=f"file://{place.rendezvous}",
        rank=place.rank,
        world_size=place.workers,
        timeout=timedelta(seconds=place.timeout_s),
    )
    HERE.among_workers = dist.group.WORLD


def hide_ranks(environment: MutableMapping[str, str]) -> None:
    """Take away what would send a script into a distributed branch of its own."""
    for name in RANK_VARIABLES:
        environment.pop(name, None)


def mute(place: Place) -> None:
    """One rank prints; errors of the others stay readable."""
    if place.rank:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  for as long as the script runs


def reseed(rank: int) -> None:
    """Let ranks draw different numbers from now on; the first goes on as if it were alone."""
    if rank == 0:
        return
    import torch

    seed = torch.initial_seed() + rank
    torch.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % NUMPY_SEEDS)


def optimizers() -> "list[Optimizer]":
    """Those that are alive; the garbage collector knows them (about 0.1 s)."""
    from torch.optim import Optimizer

    # type(), never isinstance(): that asks __class__, which lazy proxies answer by importing things
    return [thing for thing in gc.get_objects() if issubclass(type(thing), Optimizer)]


def broadcast(tensors: "Iterable[Tensor]") -> None:
    """Give every rank the first one's values; autograd does not see it."""
    import torch.distributed as dist

    for tensor in tensors:
        dist.broadcast(tensor.data, 0)


def average(parameters: "Sequence[Parameter]", ranks: int) -> None:
    """Replace gradients by their mean over all ranks; one that is missing on some ranks counts as zero there.

    Raises:
        Refused: A gradient is sparse.
    """
    import torch
    import torch.distributed as dist

    kinds: dict[tuple[Any, Any], list[Parameter]] = {}
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            raise Refused("sparse gradients are not averaged")
        kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    with torch.no_grad():
        for (dtype, device), members in kinds.items():
            present = [each.grad is not None for each in members]
            pieces = [torch.zeros_like(each) if each.grad is None else each.grad for each in members]
            flags = torch.tensor(present, dtype=dtype, device=device)  # summed along: who had a gradient
            flat = torch.cat([*(piece.reshape(-1) for piece in pieces), flags])
            dist.all_reduce(flat)
            anywhere = present if all(present) else [count > 0 for count in flat[-len(members) :].tolist()]
            flat /= ranks
            parts = flat[: -len(members)].split([each.numel() for each in members])
            for parameter, part, had in zip(members, parts, anywhere, strict=True):
                if parameter.grad is not None:
                    parameter.grad.copy_(part.view_as(parameter))
                elif had:
                    parameter.grad = part.view_as(parameter).clone()


def digest(batch: Any) -> int | None:
    """A number that tells batches apart, from the beginnings of their tensors; ``None`` without tensors."""
    import torch

    hashed, found = blake2b(digest_size=7), False
    for tensor in each_tensor(batch):
        if tensor.layout is not torch.strided:
            continue
        found = True
        start = tensor.detach().reshape(-1)[:SAMPLE].cpu().contiguous()
        hashed.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
        hashed.update(start.view(torch.uint8).numpy().tobytes())
    return int.from_bytes(hashed.digest()) if found else None


def _distributed(root: "Module", function: Callable[..., Any]) -> "Module":
    """The root behind DistributedDataParallel, called through what other knobs put before its forward."""
    import torch
    from torch.nn.parallel import DistributedDataParallel

    class Call(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.root = root

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    try:
        return DistributedDataParallel(Call())
    except (RuntimeError, ValueError) as error:  # the same on every rank
        raise Refused(f"DistributedDataParallel: {str(error).splitlines()[0]}") from None


def _parameters(optimizer: "Optimizer") -> "list[Parameter]":
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
