"""Where a program makes its loader and its optimizer, and where it trains its model: one place, or none."""

from dataclasses import dataclass
from typing import Any

import libcst as cst

from advisor.patching.source.call_arguments import argument
from advisor.patching.source.edit import CannotEdit
from advisor.patching.source.program_source import (
    Site,
    Source,
    assigned_names,
    dotted,
    method,
    parameters,
    value_of,
)

LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
WORKLOADS = ("advisor.Workload", "advisor.workloads.workload.Workload")
OPTIMIZERS = (
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "RAdam", "RMSprop",
    "Rprop", "SGD", "SparseAdam", "Adafactor",
)  # fmt: skip
OF_OPTIMIZERS = ("torch.optim", *(f"torch.optim.{name.lower()}" for name in OPTIMIZERS))
NO_GRADIENTS = (
    "torch.no_grad",
    "torch.inference_mode",
    "torch.autograd.no_grad",
    "torch.autograd.inference_mode",
)
TOGETHER = (
    "DistributedDataParallel", "FullyShardedDataParallel", "DataParallel", "DDP", "FSDP", "fully_shard",
)  # fmt: skip
FRAMEWORKS = (
    "accelerate",
    "deepspeed",
    "ignite",
    "lightning",
    "lightning_fabric",
    "pytorch_lightning",
    "torchtnt",
)
BRANCHES = (cst.For, cst.IfExp, cst.Lambda, cst.Match, cst.Try, cst.While)
SAME = ("to", "cuda", "cpu", "train", "eval", "float", "requires_grad_")
"""Methods of a module that return the module itself."""


@dataclass(frozen=True)
class Model:
    """The one model that is trained.

    Attributes:
        name: As the optimizer is given its parameters.
        names: What it is called where it is made and in what refers to it: ``model``, ``self.model``.
        optimizer: The call that makes its optimizer.
    """

    name: str
    names: frozenset[str]
    optimizer: Site[cst.Call]


def training_loader(source: Source) -> Site[cst.Call]:
    """The call that makes the loader of the training batches; of a workload file that of the workload.

    Raises:
        CannotEdit: There is none, or it cannot be told which one.
    """
    if source.kind == "workload":
        return _only(source.calls(*WORKLOADS), "advisor.Workload(...) is called")
    made = source.calls(*LOADERS)
    if not made:
        raise CannotEdit("this file makes no DataLoader")
    iterated = [_loops(source, site) for site in made]
    training = [site for site, loops in zip(made, iterated, strict=True) if any(map(_Trains(source), loops))]
    if len(made) == 1 and not iterated[0]:  # handed on to something that iterates it elsewhere
        training = made
    if len(training) != 1:
        if len(made) == 1:
            raise CannotEdit("no training loop of this file reads the DataLoader that is made here")
        raise CannotEdit(
            f"{len(made)} DataLoaders are made here, and which one the training reads is not clear"
        )
    function = training[0].inside(cst.FunctionDef)
    if function is not None and _times_called(source, function) > 1:
        raise CannotEdit(f"{function.name.value}() makes several DataLoaders with the same code")
    return training[0]


def training_loops(source: Source, loader: Site[cst.Call]) -> list[Site[cst.For]]:
    """Loops over what a loader's call makes in which the model is trained."""
    return [loop for loop in _loops(source, loader) if _Trains(source)(loop)]


def only_optimizer(source: Source) -> Site[cst.Call]:
    """The call that makes the program's one optimizer.

    Raises:
        CannotEdit: None of torch's is made here, or several are.
    """
    site = _only(_made_optimizers(source), "an optimizer of torch is made")
    _refuse_repeated(source, site)
    return site


def every_optimizer(source: Source) -> list[Site[cst.Call]]:
    """The calls that make the program's optimizers, where a run makes all of them: those of a GAN, say.

    Raises:
        CannotEdit: None of torch's is made here, or which of them a run makes cannot be told.
    """
    found = _made_optimizers(source)
    if len(found) < 2:
        return [only_optimizer(source)]
    if len({id(source.scope(site)) for site in found}) > 1 or any(map(_is_conditional, found)):
        raise CannotEdit(f"an optimizer of torch is made at {len(found)} places, perhaps not all in one run")
    _refuse_repeated(source, found[0])
    return found


def _made_optimizers(source: Source) -> list[Site[cst.Call]]:
    return source.calls(*(f"{package}.{name}" for package in OF_OPTIMIZERS for name in OPTIMIZERS))


def _refuse_repeated(source: Source, optimizer: Site[cst.Call]) -> None:
    function = optimizer.inside(cst.FunctionDef)
    if function is not None and _times_called(source, function) > 1:
        raise CannotEdit(f"{function.name.value}() makes several optimizers with the same code")


def _is_conditional(site: Site[cst.Call]) -> bool:
    """Whether a run may pass by, other than because the file is imported."""
    tests = [node.test for node in site.above if isinstance(node, cst.If)]
    return any(isinstance(node, BRANCHES) for node in site.above) or any(
        not isinstance(test, cst.Comparison) or dotted(test.left) != "__name__" for test in tests
    )


def optimizer_class(source: Source, site: Site[cst.Call]) -> str:
    """The name of its class."""
    return (source.path(site.node.func) or "").rpartition(".")[2]


def trained_model(source: Source) -> Model:
    """The one model whose parameters the one optimizer updates.

    Raises:
        CannotEdit: There is no such model, or it cannot be told which one it is.
    """
    optimizer = only_optimizer(source)
    given = argument(optimizer.node, "params", ("params",))
    owners = _owners(source, given.value) if given is not None else set()
    if given is not None and not owners and isinstance(given.value, cst.Name):
        assigned = source.assignments(given.value.value)
        owners = _owners(source, value_of(assigned[0].node)) if len(assigned) == 1 else set()
    if len(owners) != 1:
        raise CannotEdit("which model the optimizer updates is not clear")
    (name,) = owners
    names = {name}
    for site in source.sites(cst.Assign):
        targets = [dotted(each.target) for each in site.node.targets]
        if dotted(site.node.value) == name and len(targets) == 1 and targets[0] is not None:
            names.add(targets[0])
    return Model(name, frozenset(names), optimizer)


def training_call(source: Source, model: Model) -> Site[cst.Call]:
    """The one call of the model in the training loop; a call behind the loop, as for a test, is another one.

    Raises:
        CannotEdit: There is none, or there are several.
    """
    found = training_calls(source, model)
    looped = [site for site in found if _in_training_loop(source, site)]
    return _only(looped or found, "the model is called beside a backward")


def training_calls(source: Source, model: Model) -> list[Site[cst.Call]]:
    """Calls of the model in functions that call backward, where gradients are on.

    Raises:
        CannotEdit: There is none.
    """
    found = []
    for site in source.sites(cst.Call):
        if dotted(site.node.func) is None or _evaluates(source, site):
            continue
        meaning = source.meaning(site.node.func, site) or ""
        if meaning.removesuffix(".forward") in model.names and _trains(source, source.scope(site)):
            found.append(site)
    if any(method(site.node) == "forward" for site in found):
        raise CannotEdit("the model's forward is called directly")
    return found or [_only(found, "the model is called beside a backward")]


def _in_training_loop(source: Source, site: Site[cst.Call]) -> bool:
    """Whether the nearest loop around a call holds a backward, too."""
    loops = [node for node in reversed(site.above) if isinstance(node, cst.For | cst.While)]
    return bool(loops) and bool(source.methods("backward", under=loops[0].body))


def refuse_ranks(source: Source) -> None:
    """Refuse programs whose model is wrapped for several processes or by a framework.

    Raises:
        CannotEdit: It is.
    """
    if source.mentions(*TOGETHER):
        raise CannotEdit("the model is wrapped for several devices, and the order of wrapping matters")
    if source.imports(*FRAMEWORKS):
        raise CannotEdit("a framework sets up the model")


def refuse_reassigned(source: Source, model: Model) -> None:
    """Refuse programs that make something else of the model after its optimizer was made.

    Raises:
        CannotEdit: They do.
    """
    for name in model.names:
        for site in source.assignments(name):
            value = value_of(site.node)
            same = isinstance(value, cst.Call) and method(value) in SAME
            if _is_another(source, model, name, site):
                continue
            if site.order > model.optimizer.order and not same and dotted(value) not in model.names:
                raise CannotEdit(f"`{name}` is assigned again after its optimizer is made")


def _is_another(source: Source, model: Model, name: str, assignment: Site[Any]) -> bool:
    """Whether a name is another variable there than in the function that makes the optimizer and trains."""
    home = source.scope(model.optimizer)
    if not isinstance(home, cst.FunctionDef) or source.scope(assignment) is home:
        return False
    own = name in parameters(home) or any(source.scope(site) is home for site in source.assignments(name))
    return own and all(source.scope(site) is home for site in training_calls(source, model))


def before_optimizer(source: Source, model: Model, code: str) -> dict[cst.CSTNode, Any]:
    """A replacement that puts a statement before the one that makes the optimizer.

    Raises:
        CannotEdit: The optimizer is made within another expression.
    """
    statement = source.statement(model.optimizer)
    if isinstance(statement.only, cst.Return):
        raise CannotEdit("the optimizer is returned by a function")
    return {statement.line: cst.FlattenSentinel([source.parsed(code), statement.line])}


def _only(found: list[Site[cst.Call]], what: str) -> Site[cst.Call]:
    if len(found) != 1:
        times = "nowhere in this file" if not found else f"at {len(found)} places"
        raise CannotEdit(f"{what} {times}")
    return found[0]


def _owners(source: Source, node: cst.CSTNode) -> set[str]:
    """Modules whose parameters an expression takes."""
    taken = source.methods("parameters", "named_parameters", under=node)
    owners = {dotted(site.node.func.value) for site in taken if isinstance(site.node.func, cst.Attribute)}
    return set() if None in owners else {owner for owner in owners if owner is not None}


def _loops(source: Source, loader: Site[cst.Call]) -> list[Site[cst.For]]:
    """Loops over what a call makes: over the call itself, or over the one name it is assigned to."""
    direct = [site for site in source.sites(cst.For) if loader.is_under(site.node.iter)]
    holder = loader.inside(cst.Assign)
    if direct or holder is None or len(holder.targets) != 1 or holder.value is not loader.node:
        return direct
    name = dotted(holder.targets[0].target)
    if name is None:
        return []
    return [site for site in source.sites(cst.For) if _reads(source, site, name)]


def _reads(source: Source, loop: Site[cst.For], name: str) -> bool:
    """Whether the head of a loop names it, as in ``enumerate(name)``."""
    heads = [site for site in source.everything if site.is_under(loop.node.iter)]
    return any(
        source.meaning(site.node, site) == name
        for site in heads
        if isinstance(site.node, cst.Name | cst.Attribute)
    )


class _Trains:
    """Whether a loop trains: a backward in it, or in a function that it calls."""

    def __init__(self, source: Source) -> None:
        self._source = source
        scopes = [source.scope(site) for site in source.methods("backward")]
        self._training = [_Named.of(source, scope) for scope in scopes if isinstance(scope, cst.FunctionDef)]

    def __call__(self, loop: Site[cst.For]) -> bool:
        calls = self._source.sites(cst.Call, loop.node.body)
        return any(
            method(site.node) == "backward" or any(each.is_called(site.node) for each in self._training)
            for site in calls
        )


@dataclass(frozen=True)
class _Named:
    """A function or method of this file: the function ``train`` is not the one of ``model.train()``."""

    name: str
    is_method: bool

    @classmethod
    def of(cls, source: Source, function: cst.FunctionDef) -> "_Named":
        site = next(site for site in source.sites(cst.FunctionDef) if site.node is function)
        around = [node for node in site.above if isinstance(node, cst.FunctionDef | cst.ClassDef)]
        return cls(function.name.value, bool(around) and isinstance(around[-1], cst.ClassDef))

    def is_called(self, call: cst.Call) -> bool:
        """Whether a call, by what it says, is one of it."""
        func = call.func
        if isinstance(func, cst.Attribute):
            return self.is_method and func.attr.value == self.name
        return not self.is_method and isinstance(func, cst.Name) and func.value == self.name


def _times_called(source: Source, function: cst.FunctionDef) -> int:
    """How many calls of a function there are; one that is made again after an error is the same call."""
    named = _Named.of(source, function)
    called = [site for site in source.sites(cst.Call) if named.is_called(site.node)]
    first = [site for site in called if site.inside(cst.ExceptHandler) is None]
    return len(first or called)


def _trains(source: Source, scope: cst.CSTNode) -> bool:
    """Whether a function, or the module outside of functions, calls backward."""
    return any(source.scope(site) is scope for site in source.methods("backward"))


def _evaluates(source: Source, site: Site[Any]) -> bool:
    """Whether gradients are off where it stands."""
    for node in site.above:
        if isinstance(node, cst.With):
            modes = [item.item for item in node.items]
        elif isinstance(node, cst.FunctionDef):
            modes = [each.decorator for each in node.decorators]
        else:
            continue
        called = [mode.func if isinstance(mode, cst.Call) else mode for mode in modes]
        if any(source.path(each) in NO_GRADIENTS for each in called):
            return True
    return False


def is_whole_batch(source: Source, site: Site[Any], name: str) -> bool:
    """Whether a name may stand for more than one tensor: only parts of a batch are known to be one.

    Args:
        source: The program.
        site: Where the name is used.
        name: A plain name.
    """
    scope = source.scope(site)
    part = False
    for each in source.everything:
        node = each.node
        if isinstance(node, cst.For) and name in (assigned_names(node.target) or ()):
            if not _unpacks(node, name):
                return True
            part = True
        elif isinstance(node, cst.Assign) and source.scope(each) is scope:
            for target in node.targets:
                if name not in (assigned_names(target.target) or ()):
                    continue
                if isinstance(target.target, cst.Name) and not _is_tensor(source, node.value):
                    return True
                part = True
    return not part


def _unpacks(loop: cst.For, name: str) -> bool:
    """Whether a loop unpacks its batch: ``for x, y in loader``, ``for i, (x, y) in enumerate(loader)``."""
    target = loop.target
    if not isinstance(target, cst.Tuple):
        return False
    if isinstance(loop.iter, cst.Call) and dotted(loop.iter.func) == "enumerate":
        inner = [each.value for each in target.elements[1:]]
        return any(isinstance(each, cst.Tuple) and name in (assigned_names(each) or ()) for each in inner)
    return True


def _is_tensor(source: Source, value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.Subscript):
        return True
    if not isinstance(value, cst.Call):
        return False
    return method(value) in ("to", "cuda", "contiguous", "float") or (
        source.path(value.func) or ""
    ).startswith("torch.")
