"""What a root module consists of, read from the module itself."""

import inspect
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.observed import Location
from advisor.profiles.facts.profile import EmbeddingFacts, RootFacts
from advisor.profiles.hooks.model.embeddings import is_table, table_facts
from advisor.profiles.hooks.user_lines import LIBRARIES

if TYPE_CHECKING:
    from torch.nn import Module


@dataclass
class _Parts:
    """What was met on the way through the modules."""

    dimensions: set[int] = field(default_factory=set)
    dense_convolutions: int = 0
    grouped_convolutions: int = 0
    batch_norm: bool = False
    dropout: bool = False
    compiled: bool = False
    scripted: bool = False
    repeated: int = 0
    checkpointed: bool = False
    channels_last: bool | None = None
    parallel: Any = None
    uses: Counter[int] = field(default_factory=Counter)
    biases: list[str] = field(default_factory=list)
    embeddings: list[EmbeddingFacts] = field(default_factory=list)


def root_facts(root: "Module") -> RootFacts:
    """Describe a module; ``takes_4d_input`` stays open until it is called.

    Parameters are counted once each; a convolution is dense when it has one group, else grouped. Names are
    those below the module that wrappers of torch hold.
    """
    from torch.nn import Module

    unique = {id(parameter): parameter for parameter in Module.parameters(root)}.values()
    parts = _Parts()
    names = {id(module): name for name, module in Module.named_modules(inner(root))}
    for module in Module.modules(root):
        parts.uses.update(id(each) for each in Module.parameters(module, recurse=False))
    for module in Module.modules(root):
        _read(own_name(names.get(id(module), "")), module, parts)
    parallel = parts.parallel
    return RootFacts(
        name=type(inner(root)).__name__,
        parameters=sum(parameter.numel() for parameter in unique),
        parameter_bytes=sum(parameter.numel() * parameter.element_size() for parameter in unique),
        dtypes=tuple(sorted({str(parameter.dtype).removeprefix("torch.") for parameter in unique})),
        devices=tuple(sorted({str(parameter.device) for parameter in unique})),
        dense_convolutions=parts.dense_convolutions,
        grouped_convolutions=parts.grouped_convolutions,
        convolution_dimensions=tuple(sorted(parts.dimensions)),
        has_batch_norm=parts.batch_norm,
        has_dropout=parts.dropout,
        repeated_blocks=parts.repeated,
        already_compiled=parts.compiled,
        scripted=parts.scripted,
        channels_last=parts.channels_last,
        biases_before_norm=tuple(parts.biases),
        checkpointed=parts.checkpointed,
        parallel=None if parallel is None else parallel_kind(parallel),
        find_unused_parameters=getattr(parallel, "find_unused_parameters", None),
        static_graph=getattr(parallel, "static_graph", None),
        embeddings=tuple(parts.embeddings),
        location=_defined_at(type(inner(root))),
    )


def parallel_kind(module: "Module") -> str | None:
    """Name of torch's class that makes this module parallel, such as ``DistributedDataParallel``."""
    kinds = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule")
    return next(
        (
            kind.__name__
            for kind in type(module).__mro__
            if kind.__name__ in kinds and kind.__module__.startswith("torch.")
        ),
        None,
    )


def own_name(name: str) -> str:
    """A module's name without the parts that wrappers of torch add to it."""
    return ".".join(part for part in name.split(".") if part not in ("_orig_mod", "_fsdp_wrapped_module"))


def inner(module: Any) -> Any:
    """What the program wrote, for the modules that ``torch.compile`` and torch's parallel wrappers make."""
    while True:
        if type(module).__name__ == "OptimizedModule":
            module = module._orig_mod
        elif parallel_kind(module) in ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"):
            module = module.module
        else:
            return module


def _read(name: str, module: "Module", parts: _Parts) -> None:
    from torch import jit, nn
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.conv import _ConvNd
    from torch.nn.modules.dropout import _DropoutNd

    if isinstance(module, _ConvNd):
        parts.dimensions.add(len(module.kernel_size))
        parts.dense_convolutions += module.groups == 1
        parts.grouped_convolutions += module.groups > 1
        if module.weight.ndim == 4:
            parts.channels_last = bool(parts.channels_last) or _is_channels_last(module.weight)
    parts.batch_norm |= isinstance(module, _BatchNorm)
    parts.dropout |= isinstance(module, _DropoutNd) and module.p > 0
    parts.dropout |= isinstance(module, nn.RNNBase) and module.dropout > 0
    parts.scripted |= isinstance(module, jit.ScriptModule)
    parts.compiled |= _is_compiled(module)
    parts.checkpointed |= vars(module).get("gradient_checkpointing") is True and module.training
    if parts.parallel is None and parallel_kind(module) is not None:
        parts.parallel = module
    if isinstance(module, (nn.ModuleList, nn.Sequential)):
        parts.repeated = max(parts.repeated, _repeated(module))
    if is_table(module):
        parts.embeddings.append(table_facts(name, module, tied=parts.uses[id(module.weight)] > 1))
    if not isinstance(module, jit.ScriptModule):
        parts.biases.extend(f"{name}.{child}".lstrip(".") for child in _biases_before_norm(module))


def _biases_before_norm(container: "Module") -> list[str]:
    """Children with a bias whose next sibling normalises their output over the batch, in training."""
    from torch import nn
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.conv import _ConvNd

    children = list(container.named_children())
    found = []
    for (name, child), (_, follower) in pairwise(children):
        if not isinstance(follower, _BatchNorm) or not follower.training:
            continue
        if not isinstance(child, (_ConvNd, nn.Linear)) or child.bias is None:
            continue
        width = child.out_channels if isinstance(child, _ConvNd) else child.out_features
        if width == follower.num_features:
            found.append(name)
    return found


def _is_channels_last(weight: Any) -> bool:
    """Whether it is laid out so; a kernel of size 1 may be read either way and counts as not."""
    import torch

    return weight.is_contiguous(memory_format=torch.channels_last) and not weight.is_contiguous()


def _is_compiled(module: Any) -> bool:
    return (
        getattr(module, "_compiled_call_impl", None) is not None or type(module).__name__ == "OptimizedModule"
    )


def _repeated(container: "Module") -> int:
    """Blocks of the most frequent class, where there are two; a block has parts of its own."""
    counts = Counter(
        type(child) for child in container.children() if next(child.children(), None) is not None
    )
    most = max(counts.values(), default=0)
    return most if most > 1 else 0


def _defined_at(kind: type) -> Location | None:
    """Where the program wrote the forward of a class; ``None`` for a library's class."""
    code = getattr(inspect.unwrap(getattr(kind, "forward", kind)), "__code__", None)
    if code is None or code.co_filename.startswith(LIBRARIES):
        return None
    return Location(code.co_filename, code.co_firstlineno, code.co_qualname)
