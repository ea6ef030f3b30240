"""What a script needs to be trained by several processes under DistributedDataParallel."""

from collections.abc import Mapping

import libcst as cst

from advisor.patching.edits.loader_arguments import ORDER
from advisor.patching.source.call_arguments import (
    argument,
    expression,
    has_stars,
    literal,
    with_argument,
    without_argument,
)
from advisor.patching.source.edit import Asked, CannotEdit, Edit
from advisor.patching.source.program_sites import (
    before_optimizer,
    refuse_ranks,
    refuse_reassigned,
    trained_model,
    training_call,
    training_loader,
    training_loops,
)
from advisor.patching.source.program_source import Site, Source, dotted

JOIN = "torch.distributed.init_process_group()"
LEAVE = "if torch.distributed.is_initialized():\n    torch.distributed.destroy_process_group()\n"
WRAPPER = "torch.nn.parallel.DistributedDataParallel"
SAMPLER = "torch.utils.data.distributed.DistributedSampler"
RANKS = "torch.distributed.get_world_size()"


class Ddp(Edit):
    """Joins the processes that torchrun starts, deals samples and batches out among them, wraps the model.

    It shows what to change. Every process still prints, evaluates and saves, and names in checkpoints begin
    with ``module.``: so a script under several ranks is only ever proposed.
    """

    knobs = ("strategy",)
    left = "start it with `torchrun --nproc-per-node=N`; print, evaluate and save where RANK is 0"

    def edit(self, source: Source, asked: Mapping[str, Asked]) -> cst.Module:
        """Refused where batches are made in another way than by a DataLoader that is told their size."""
        if asked["strategy"].after != "ddp" or source.kind != "script":
            raise CannotEdit("only scripts get edits, for ddp")
        if source.imported.get("torch") != "torch":
            raise CannotEdit("the file does not `import torch`")
        model = trained_model(source)
        refuse_ranks(source)
        refuse_reassigned(source, model)
        training_call(source, model)
        if source.scope(training_loader(source)) is not source.scope(model.optimizer):
            raise CannotEdit("loader and optimizer are made in different functions")
        for change in (_dealt_anew, _divided, _wrapped, _joined, _left):
            source = source.again(change(source))
        return source.module


def _divided(source: Source) -> cst.Module:
    """Every process takes its share of each batch, and of the samples."""
    site = training_loader(source)
    call = site.node
    if has_stars(call):
        raise CannotEdit("arguments of the loader are unpacked from a list or dictionary")
    for name in ("sampler", "batch_sampler"):
        given = argument(call, name, ORDER)
        if given is not None and dotted(given.value) != "None":
            raise CannotEdit(f"the loader has a {name} of its own")
    dataset, batch = argument(call, "dataset", ORDER), argument(call, "batch_size", ORDER)
    if dataset is None or dotted(dataset.value) is None:
        raise CannotEdit("the dataset is made within the call of its loader")
    if batch is None or dotted(batch.value) == "None":
        raise CannotEdit("the loader is not told how large a batch is")
    share = cst.BinaryOperation(_grouped(batch.value), cst.FloorDivide(), expression(RANKS))
    sampler = f"{SAMPLER}({source.text(dataset.value)}{'' if _shuffles(call) else ', shuffle=False'})"
    call = with_argument(call, "batch_size", share, ORDER)
    call = with_argument(without_argument(call, "shuffle", ORDER), "sampler", expression(sampler), ORDER)
    return source.replaced({site.node: call})


def _dealt_anew(source: Source) -> cst.Module:
    """In every epoch the samples are dealt out in another order; without it each would be as the first."""
    site = training_loader(source)
    if not _shuffles(site.node):
        return source.module
    loops = [loop for loop in training_loops(source, site) if loop.inside(cst.For) is not None]
    holder = site.inside(cst.Assign)
    name = dotted(holder.targets[0].target) if holder is not None and holder.value is site.node else None
    epochs = loops[0].inside(cst.For) if len(loops) == 1 else None
    if name is None or epochs is None or not isinstance(epochs.target, cst.Name):
        raise CannotEdit("no loop over epochs was found in which the sampler could be told of a new one")
    (loop,) = loops
    if source.scope(loop) is not source.scope(site):
        raise CannotEdit("the loader is read in another function than it is made in")
    line = source.parsed(f"{name}.sampler.set_epoch({epochs.target.value})")
    return source.replaced({loop.node: cst.FlattenSentinel([line, loop.node])})


def _shuffles(loader: cst.Call) -> bool:
    given = argument(loader, "shuffle", ORDER)
    value = False if given is None else literal(given.value)
    if not isinstance(value, bool):
        raise CannotEdit("whether the loader shuffles is decided elsewhere")
    if given is not None and given.keyword is None:
        raise CannotEdit("shuffle is given by position")
    return value


def _wrapped(source: Source) -> cst.Module:
    model = trained_model(source)
    return source.replaced(before_optimizer(source, model, f"{model.name} = {WRAPPER}({model.name})"))


def _joined(source: Source) -> cst.Module:
    """The process group comes before what needs it."""
    first: Site[cst.Call] = min(training_loader(source), *source.calls(WRAPPER), key=lambda site: site.order)
    statement = source.statement(first)
    return source.replaced({statement.line: cst.FlattenSentinel([source.parsed(JOIN), statement.line])})


def _left(source: Source) -> cst.Module:
    """Without an orderly end some processes abort when they exit: threads of the group still run."""
    last = cst.parse_statement(LEAVE, config=source.module.config_for_parsing)
    return source.module.with_changes(body=[*source.module.body, last])


def _grouped(value: cst.BaseExpression) -> cst.BaseExpression:
    """In brackets, where it is more than a number or a name."""
    if isinstance(value, cst.Integer) or dotted(value) is not None:
        return value
    return value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
