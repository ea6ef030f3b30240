"""Which layers of a model are divided among workers, and dividing them."""

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import nn

from advisor.tuners.knob import Refused
from advisor.tuners.mechanisms.tensor.attention_plan import Block, apply, how_divided, named_blocks, why_whole
from advisor.tuners.mechanisms.tensor.linear_groups import LinearGroup, joined, linear_groups
from advisor.tuners.mechanisms.tensor.sharded import divide, held_by_all
from advisor.tuners.mechanisms.tensor.split_attention import SplitAttention, can_be_split, without_conv1d

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

NOTHING = (
    "no two linear layers with only element-by-element functions between them, and no attention, "
    "can be divided among {workers} ranks"
)


def parallelize(model: nn.Module, mesh: "DeviceMesh") -> list[LinearGroup]:
    """Divide all groups of layers that can be; what they are, by name below the model.

    Raises:
        Refused: There is none; every worker comes to the same.
    """
    workers = mesh.size()
    reasons: list[str] = []
    without_conv1d(model)
    tied = _tied(model)
    blocks = [block for block in named_blocks(model) if not tied & _names(block)]
    taken: set[str] = set()
    chosen: list[tuple[Block, tuple[str, ...]]] = []
    for block in blocks:
        if taken & _names(block):
            continue
        counts = how_divided(block, model, mesh)
        if counts is None:
            reasons.append(why_whole(block, model, workers))
            continue
        chosen.append((block, counts))
        taken |= _names(block)
    plain = [
        group for group in linear_groups(model)
        if not (taken | tied) & set(group.names) and _divisible(model, group, workers, reasons)
    ]  # fmt: skip
    attentions = _replaced(model, workers, tied, reasons)
    for block, counts in chosen:
        apply(block, model.get_submodule(block.name), counts, mesh)
    divide(model, [*plain, *attentions], mesh)
    for group in attentions:
        owner: Any = model.get_submodule(group.rows.rpartition(".")[0])
        owner.whole = partial(held_by_all, mesh=mesh)
    groups = [*(block.group.below(block.name) for block, _ in chosen), *plain, *attentions]
    if not groups:
        raise Refused("; ".join([NOTHING.format(workers=workers), *dict.fromkeys(reasons)][:4]))
    return groups


def _names(block: Block) -> set[str]:
    return set(block.group.below(block.name).names)


def _tied(model: nn.Module) -> set[str]:
    """Names of layers that share a parameter with another module, or that something else is hooked to."""
    uses: Counter[int] = Counter()
    for module in model.modules():
        uses.update(id(parameter) for parameter in module.parameters(recurse=False))
    times = Counter(id(module) for _, module in model.named_modules(remove_duplicate=False))
    return {
        name for name, module in model.named_modules()
        if times[id(module)] > 1 or module._forward_hooks or module._forward_pre_hooks
        or any(uses[id(parameter)] > 1 for parameter in module.parameters(recurse=False))
    }  # fmt: skip


def _divisible(model: nn.Module, group: LinearGroup, workers: int, reasons: list[str]) -> bool:
    rows: Any = model.get_submodule(group.rows)
    if rows.in_features % workers == 0:
        return True
    reasons.append(f"a width of {rows.in_features} ({group.rows}) cannot be divided among {workers} ranks")
    return False


def _replaced(model: nn.Module, workers: int, tied: set[str], reasons: list[str]) -> list[LinearGroup]:
    """Groups of attentions of torch, which are given projections of their own."""
    groups = []
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False  # which knows only torch's own attention
        if not isinstance(module, nn.MultiheadAttention) or name in tied or not name:
            continue
        if not can_be_split(module):
            reasons.append(f"{name} has keys or values of another width, or appends some")
        elif module.num_heads % workers:
            reasons.append(f"{module.num_heads} heads ({name}) cannot be divided among {workers} ranks")
        else:
            above, _, own = name.rpartition(".")
            setattr(model.get_submodule(above), own, SplitAttention(module).train(module.training))
            columns = tuple(joined(name, each) for each in ("query", "key", "value"))
            groups.append(LinearGroup(columns, joined(name, "out")))
    return groups
