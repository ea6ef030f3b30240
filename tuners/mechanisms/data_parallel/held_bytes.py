"""Memory that this process itself holds of a model and its optimizer that others share."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from advisor.profiles.hooks.tensors import each_tensor

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


def held_bytes(tensors: "Iterable[Tensor]") -> int:
    """Bytes of distinct tensors; of those that are sharded, of this worker's part."""
    distinct = {id(tensor): tensor for tensor in tensors}.values()
    return sum(_local(tensor).nbytes for tensor in distinct)


def held_state_bytes(optimizer: "Optimizer") -> int:
    """Bytes of the optimizer's state, such as momenta; of one that wraps another, of the inner one's."""
    inner: Any = getattr(optimizer, "optim", optimizer)
    return held_bytes(tensor for state in inner.state.values() for tensor in each_tensor(state))


def _local(tensor: Any) -> Any:
    """This worker's part of a DTensor; any other tensor itself."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
