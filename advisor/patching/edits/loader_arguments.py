"""Arguments of the DataLoader that the training reads, or of a workload."""

from collections.abc import Mapping, Sequence

import libcst as cst

from advisor.patching.source.call_arguments import (
    argument,
    expression,
    has_stars,
    literal,
    with_argument,
    without_argument,
)
from advisor.patching.source.edit import Asked, CannotEdit, Edit
from advisor.patching.source.option_values import Place, place_of
from advisor.patching.source.program_sites import training_loader
from advisor.patching.source.program_source import Site, Source
from advisor.result.document import Value

ORDER = (
    "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory",
    "drop_last", "timeout", "worker_init_fn", "multiprocessing_context", "generator",
)  # fmt: skip
"""What torch takes by position."""
DEFAULTS: dict[str, Value] = {
    "batch_size": 1, "num_workers": 0, "prefetch_factor": 2, "persistent_workers": "off", "pin_memory": "off",
    "in_order": "on",
}  # fmt: skip
OF_WORKLOAD = DEFAULTS | {"batch_size": 32}
WORKER_ONLY = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")
"""Options that torch rejects without workers."""
NOT_OF_WORKLOAD = ("in_order", "multiprocessing_context")
SWITCHES: dict[object, Value] = {True: "on", False: "off"}


class LoaderArguments(Edit):
    """Sets arguments of the one call that makes the training loader, where its values are literals.

    A value that comes from a constant, or from the default of a command line option, is changed there if it
    is read nowhere else.
    """

    knobs = (
        "batch_size", "in_order", "multiprocessing_context", "num_workers", "persistent_workers",
        "pin_memory", "prefetch_factor",
    )  # fmt: skip

    def edit(self, source: Source, asked: Mapping[str, Asked]) -> cst.Module:
        """Set all of them; with no workers the options that need some are taken out."""
        own = [asked[name] for name in self.knobs if name in asked]
        site = training_loader(source)
        call, order = site.node, () if source.kind == "workload" else ORDER
        if has_stars(call):
            raise CannotEdit("arguments of the loader are unpacked from a list or dictionary")
        elsewhere: dict[cst.CSTNode, cst.CSTNode] = {}
        given = argument(call, "num_workers", order)
        workers: object = 0 if given is None else literal(given.value)
        for change in own:
            try:
                place = _place(source, site, change, order)
            except CannotEdit as reason:
                raise CannotEdit(str(reason), change.knob) from None
            new = expression(_python(change))
            if place is None:
                call = with_argument(call, change.knob, new, order)
            else:
                elsewhere[place.old] = place.changed(new)
            if change.knob == "num_workers":
                workers = change.after
        if workers == 0:
            call = _without_workers(call, own, order)
        return source.replaced({site.node: call, **elsewhere})


def _place(source: Source, site: Site[cst.Call], change: Asked, order: Sequence[str]) -> Place | None:
    """Where the value is written, if not at the call.

    Raises:
        CannotEdit: The loader does not take it, or has another value than the measured one.
    """
    if source.kind == "workload" and change.knob in NOT_OF_WORKLOAD:
        raise CannotEdit(f"advisor.Workload has no argument {change.knob}")
    sampler = argument(site.node, "batch_sampler", order)
    if change.knob == "batch_size" and sampler is not None and literal(sampler.value) is not None:
        raise CannotEdit("the DataLoader has a batch sampler of its own")
    written = argument(site.node, change.knob, order)
    place = None if written is None else place_of(source, site, written, change.knob, change.after)
    node = place.value if place is not None else None if written is None else written.value
    present = None if node is None else literal(node)
    if isinstance(present, bool):
        present = SWITCHES[present]
    if present is None:
        defaults = OF_WORKLOAD if source.kind == "workload" else DEFAULTS
        present = defaults.get(change.knob, change.before)
    if present != change.before:  # then it is another loader than the measured one
        raise CannotEdit(f"{change.knob} is {present} there, and {change.before} was measured")
    return place


def _without_workers(call: cst.Call, own: Sequence[Asked], order: Sequence[str]) -> cst.Call:
    asked = [change.knob for change in own if change.knob in WORKER_ONLY]
    if asked:
        raise CannotEdit(f"{asked[0]} needs num_workers above 0, and there are none", asked[0])
    for name in WORKER_ONLY:
        present = argument(call, name, order)
        if present is not None and present.keyword is None:
            raise CannotEdit(f"{name} is given by position, and needs num_workers above 0")
        call = without_argument(call, name, order)
    return call


def _python(change: Asked) -> str:
    """The value as Python writes it."""
    if isinstance(change.after, int):
        return str(change.after)
    return {"on": "True", "off": "False"}.get(change.after, f'"{change.after}"')
