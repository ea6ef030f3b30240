"""The next batch copied to the GPU while this one computes."""

import copy
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from advisor.profiles.facts.profile import Profile
from advisor.profiles.hooks.tensors import each_tensor, tensor_type
from advisor.tuners.knob import Change, Knob, Refused, Semantics

if TYPE_CHECKING:
    from torch import Tensor

PREFETCHER = '''\
import torch
from torch.utils._pytree import tree_leaves, tree_map_only


class Prefetcher:
    """Batches of a loader with pin_memory=True, on the device; the next one is on its way."""

    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.side = torch.cuda.Stream(device)

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        ready = None
        for batch in self.loader:
            if ready is not None:
                self.wait(ready)
            with torch.cuda.stream(self.side):
                following = tree_map_only(
                    torch.Tensor, lambda tensor: tensor.to(self.device, non_blocking=True), batch
                )
            if ready is not None:
                yield ready
            ready = following
        if ready is not None:
            self.wait(ready)
            yield ready

    def wait(self, batch):
        computing = torch.cuda.current_stream(self.device)
        computing.wait_stream(self.side)
        for tensor in tree_leaves(batch):
            if isinstance(tensor, torch.Tensor):
                tensor.record_stream(computing)


loader = Prefetcher(loader, device)'''


class DevicePrefetcher(Knob[str]):
    """Copies the next batch to the GPU on a stream of its own, beside the kernels of this one.

    On the stream that computes, kernels stand in line behind each copy even where the host does not wait
    for it. On a second stream the copy runs at the same time. It needs batches in pinned memory
    (see `pin_memory`) and costs the GPU memory of one more batch.

    The numbers stay the same: batches keep their order, and one is asked for a step earlier. A dataset
    that draws random numbers in the main process draws them a step earlier, too. Programs that look at
    a batch on the host before they copy it find it on the GPU already and can fail.
    """

    semantics = Semantics.EXACT
    loading = True
    layer = 3  # outside: the other loader knobs look at the iterator itself

    def values(self) -> list[str]:
        return ["off", "on"]

    def present(self, profile: Profile) -> str:
        if profile.loader is None:
            raise Refused("the program uses no DataLoader")
        return "off"

    def choices(self, profile: Profile) -> list[str]:
        self.check("on", profile)
        return ["off", "on"]

    def check(self, value: str, profile: Profile) -> None:
        self.present(profile)
        if not profile.device.startswith("cuda"):
            raise Refused("needs an accelerator: the model runs on the CPU")

    def batches(self, iterator: Iterator[Any], value: str) -> Iterator[Any]:
        """The iterator, one batch ahead.

        Raises:
            Refused: There is no GPU here, or batches lie in ordinary memory.
        """
        import torch

        if value == "off":
            return iterator
        if not torch.cuda.is_available():
            raise Refused("needs an accelerator: this process has none")
        if not getattr(iterator, "_pin_memory", False):
            raise Refused(
                "batches come from ordinary memory, from where no copy runs aside: needs pin_memory"
            )
        return Ahead(iterator, SideStream())

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("# iterate over the loader itself")
        return Change(PREFETCHER)


class Copying(Protocol):
    """How a batch gets to where it is used."""

    def begin(self, batch: Any) -> Any:
        """The same batch there, which may still be on its way."""

    def wait(self, batch: Any) -> None:
        """What follows may use a batch that ``begin`` returned."""


@dataclass(frozen=True)
class _Fetched:
    """A batch on its way, or what was raised in its place."""

    batch: Any = None
    error: Exception | None = None


class Ahead:
    """An iterator of which one batch more is always on its way.

    What the iterator raises is raised when its turn has come, its end included; asked again, the iterator
    is asked again.
    """

    def __init__(self, iterator: Iterator[Any], copying: Copying) -> None:
        self._iterator = iterator
        self._copying = copying
        self._following: _Fetched | None = None

    def __iter__(self) -> "Ahead":
        return self

    def __next__(self) -> Any:
        fetched = self._following or self._fetch()
        self._following = None
        if fetched.error is not None:
            raise fetched.error
        self._copying.wait(fetched.batch)  # before the next copy begins: else it would wait for that one
        self._following = self._fetch()
        return fetched.batch

    def _fetch(self) -> _Fetched:
        try:
            return _Fetched(self._copying.begin(next(self._iterator)))
        except Exception as error:  # raised in its turn
            return _Fetched(error=error)


class SideStream:
    """Copies batches to the present GPU on a stream of its own."""

    def __init__(self) -> None:
        import torch

        self._cuda = torch.cuda
        self._device = torch.device("cuda", torch.cuda.current_device())
        self._side = torch.cuda.Stream(self._device)

    def begin(self, batch: Any) -> Any:
        """Begin to copy its tensors."""
        with self._cuda.stream(self._side):
            return moved(batch, lambda tensor: tensor.to(self._device, non_blocking=True))

    def wait(self, batch: Any) -> None:
        """Kernels launched from now on find the batch there."""
        computing = self._cuda.current_stream(self._device)
        computing.wait_stream(self._side)
        for tensor in each_tensor(batch):
            if tensor.is_cuda:
                tensor.record_stream(computing)  # its memory is not given away while they run


def moved(value: Any, move: "Callable[[Tensor], Tensor]") -> Any:
    """``value`` with each tensor moved, in mappings, lists and tuples; other things stay as they are."""
    if isinstance(value, tensor_type()):
        return move(value)
    if isinstance(value, MutableMapping):
        there = copy.copy(value)  # its class may have more to it than its entries
        there.update({name: moved(part, move) for name, part in value.items()})
        return there
    if type(value) in (list, tuple):
        return type(value)(moved(part, move) for part in value)
    if isinstance(value, tuple) and hasattr(value, "_make"):
        return value._make(moved(part, move) for part in value)
    return value
