"""What a root module consists of, read from the module itself."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from advisor.profiles.profile import RootFacts

if TYPE_CHECKING:
    from torch.nn import Module


@dataclass
class _Parts:
    """What was met on the way through the modules."""

    dimensions: set[int] = field(default_factory=set)
    dense_convolutions: int = 0
    batch_norm: bool = False
    dropout: bool = False
    recurrent: bool = False
    compiled: bool = False
    scripted: bool = False
    repeated: int = 0


def root_facts(root: "Module") -> RootFacts:
    """Describe a module; ``takes_4d_input`` stays open until it is called.

    Parameters are counted once each; a convolution is dense when it has one group.
    """
    from torch.nn import Module

    unique = {id(parameter): parameter for parameter in Module.parameters(root)}.values()
    parts = _Parts()
    for module in Module.modules(root):
        _read(module, parts)
    return RootFacts(
        name=type(_inner(root)).__name__,
        parameters=sum(parameter.numel() for parameter in unique),
        parameter_bytes=sum(parameter.numel() * parameter.element_size() for parameter in unique),
        dtypes=tuple(sorted({str(parameter.dtype).removeprefix("torch.") for parameter in unique})),
        devices=tuple(sorted({str(parameter.device) for parameter in unique})),
        dense_convolutions=parts.dense_convolutions,
        convolution_dimensions=tuple(sorted(parts.dimensions)),
        has_batch_norm=parts.batch_norm,
        has_dropout=parts.dropout,
        has_recurrent=parts.recurrent,
        repeated_blocks=parts.repeated,
        already_compiled=parts.compiled,
        scripted=parts.scripted,
    )


def _read(module: "Module", parts: _Parts) -> None:
    from torch import jit, nn
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.conv import _ConvNd
    from torch.nn.modules.dropout import _DropoutNd

    if isinstance(module, _ConvNd):
        parts.dimensions.add(len(module.kernel_size))
        parts.dense_convolutions += module.groups == 1
    parts.batch_norm |= isinstance(module, _BatchNorm)
    parts.dropout |= isinstance(module, _DropoutNd) and module.p > 0
    parts.recurrent |= isinstance(module, (nn.RNNBase, nn.RNNCellBase))
    parts.dropout |= isinstance(module, nn.RNNBase) and module.dropout > 0
    parts.scripted |= isinstance(module, jit.ScriptModule)
    parts.compiled |= _is_compiled(module)
    if isinstance(module, (nn.ModuleList, nn.Sequential)):
        parts.repeated = max(parts.repeated, _repeated(module))


def _is_compiled(module: Any) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None or _inner(module) is not module


def _inner(module: Any) -> Any:
    """What ``torch.compile`` was given, for the module that it made."""
    return module._orig_mod if type(module).__name__ == "OptimizedModule" else module


def _repeated(container: "Module") -> int:
    """Blocks of the most frequent class, where there are two; a block has parts of its own."""
    counts = Counter(
        type(child) for child in container.children() if next(child.children(), None) is not None
    )
    most = max(counts.values(), default=0)
    return most if most > 1 else 0
