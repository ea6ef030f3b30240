"""Attention and feed-forward blocks known by the names of their parts, tried out before they are divided."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from advisor.tuners.mechanisms.tensor.linear_groups import LinearGroup, joined
from advisor.tuners.mechanisms.tensor.sharded import divide
from advisor.tuners.mechanisms.tensor.split_attention import interleaved

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

APART = (
    ("query", "key", "value"), ("q_proj", "k_proj", "v_proj"), ("q_lin", "k_lin", "v_lin"),
    ("to_q", "to_k", "to_v"), ("wq", "wk", "wv"), ("q", "k", "v"),
)  # fmt: skip
PACKED = ("c_attn", "qkv", "qkv_proj", "in_proj", "Wqkv")
OUT = ("out_proj", "o_proj", "out_lin", "to_out", "c_proj", "wo", "o", "out", "proj", "dense")
HEADS = ("num_heads", "num_attention_heads", "num_key_value_heads", "n_heads", "n_head", "heads")
WIDTHS = ("all_head_size", "split_size", "embed_dim", "hidden_size", "inner_dim", "d_model", "n_embd", "dim")
BATCH, LENGTH = 2, 5  # of the input that blocks are tried with


@dataclass(frozen=True)
class Block:
    """A part of a model that may be divided, if it then computes the same.

    Attributes:
        name: Of what is called with hidden states, below the model.
        group: Its layers, below the block.
        heads: Name below the block of the module that counts heads; ``None`` where there are none.
        packed: The first layer makes queries, keys and values at once.
    """

    name: str
    group: LinearGroup
    heads: str | None = None
    packed: bool = False


def named_blocks(model: nn.Module) -> list[Block]:
    """Candidates, in the order of the model."""
    found: list[Block] = []
    for name, module in model.named_modules():
        parent = name.rpartition(".")[0] if "." in name else ""
        found.extend(_attention(module, name, model.get_submodule(parent), parent))
        if _linear(module, "intermediate.dense") and _linear(module, "output.dense"):  # as in BERT
            group = LinearGroup(("intermediate.dense",), "output.dense")
            found.append(Block(name, group))
    return found


def how_divided(block: Block, model: nn.Module, mesh: "DeviceMesh") -> tuple[str, ...] | None:
    """Counts to divide, for a block that then computes the same on all workers together; else ``None``.

    Copies of it are called with random numbers, in evaluation; all workers call this for the same blocks.
    """
    whole = copy.deepcopy(model.get_submodule(block.name)).eval()
    first: Any = whole.get_submodule(block.group.columns[0])
    weight: Tensor = first.weight
    numbers = torch.Generator().manual_seed(0)
    inputs = torch.randn(BATCH, LENGTH, int(weight.shape[1]), generator=numbers)
    inputs = inputs.to(weight.device, weight.dtype)
    expected = _output(whole, inputs)
    if expected is None:
        return None
    for counts in ((), HEADS, (*HEADS, *WIDTHS)) if block.heads is not None else ((),):
        part = copy.deepcopy(whole)
        if not _fits(part, block, counts, mesh.size()):
            continue
        apply(block, part, counts, mesh)
        found = _output(part, inputs)
        if found is not None and found.shape == expected.shape and _close(found, expected):
            return counts
    return None


def why_whole(block: Block, model: nn.Module, workers: int) -> str:
    """The reason for which a block is not divided."""
    owner = model.get_submodule(joined(block.name, block.heads or ""))
    for name in _present(owner, HEADS if block.heads is not None else ()):
        count = int(getattr(owner, name))
        if count % workers:
            return f"{count} heads ({block.name}) cannot be divided among {workers} ranks"
    return f"{block.name or type(model).__name__} does not compute the same in parts"


def apply(block: Block, module: nn.Module, counts: Sequence[str], mesh: "DeviceMesh") -> None:
    """Divide the block, with its counts of heads.

    Args:
        block: What it consists of.
        module: The block itself.
        counts: Names of attributes to divide by the number of workers.
        mesh: The workers.
    """
    if block.heads is not None:
        owner = module.get_submodule(block.heads)
        for name in _present(owner, counts):
            setattr(owner, name, getattr(owner, name) // mesh.size())
    if block.packed:
        packed: Any = module.get_submodule(block.group.columns[0])
        interleaved(packed, mesh.size())
    divide(module, [block.group], mesh)


def _attention(module: nn.Module, name: str, parent: nn.Module, above: str) -> Iterable[Block]:
    for names in APART:
        if not all(_linear(module, each) for each in names):
            continue
        first: Any = module.get_submodule(names[0])
        width = int(first.out_features)
        for out in OUT:
            if _linear(module, out, width):
                yield Block(name, LinearGroup(names, out), "")
                return
        own = name.rpartition(".")[2]
        if name and _linear(parent, "output.dense", width):  # BERT and ViT keep it beside
            columns = tuple(joined(own, each) for each in names)
            yield Block(above, LinearGroup(columns, "output.dense"), own)
            return
    for each in PACKED:
        if not _linear(module, each):
            continue
        layer: Any = module.get_submodule(each)
        for out in OUT:
            if layer.out_features == 3 * layer.in_features and _linear(module, out, layer.in_features):
                yield Block(name, LinearGroup((each,), out), "", packed=True)
                return


def _linear(module: nn.Module, path: str, width: int | None = None) -> bool:
    """Whether there is a plain linear layer, with so many inputs."""
    try:
        layer = module.get_submodule(path)
    except AttributeError:
        return False
    return type(layer) is nn.Linear and width in (None, layer.in_features)


def _fits(module: nn.Module, block: Block, counts: Sequence[str], workers: int) -> bool:
    """Whether all widths and counts can be divided."""
    owner = module.get_submodule(block.heads or "")
    if any(getattr(owner, name) % workers for name in _present(owner, counts)):
        return False
    per_worker = 3 * workers if block.packed else workers
    columns: list[Any] = [module.get_submodule(name) for name in block.group.columns]
    rows: Any = module.get_submodule(block.group.rows)
    return not any(layer.out_features % per_worker for layer in columns) and rows.in_features % workers == 0


def _present(owner: nn.Module, counts: Sequence[str]) -> list[str]:
    return [name for name in counts if type(getattr(owner, name, None)) is int]


def _output(module: nn.Module, inputs: Tensor) -> Tensor | None:
    """The first tensor that comes out; ``None`` where the call fails."""
    try:
        with torch.no_grad():
            output = module(inputs)
    except Exception:  # a block may want other arguments, or shapes that division has changed
        return None
    return next((leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)), None)


def _close(found: Tensor, expected: Tensor) -> bool:
    tolerance = float(torch.finfo(expected.dtype).eps) ** 0.5
    largest = float(expected.abs().max())
    return torch.allclose(found, expected, rtol=tolerance, atol=tolerance * largest)
