"""A compiled step returns to Python in the middle."""

from advisor.advice.finding import Ceiling, Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.observed import GraphBreak
from advisor.profiles.facts.profile import Profile

BREAKS = 1.0  # per step: one that every step pays
GRAPH_OPS = ("CompiledFunction", "CompiledFunctionBackward")  # what torch 2.13 records around a graph
LONGEST = 100  # characters of a reason that has no plain words here

# part of dynamo's reason, what it means, what to write instead
PLAIN = (
    (
        "Tensor.item()",
        "`.item()` takes a number out of a tensor",
        "Keep it a tensor, or set `torch._dynamo.config.capture_scalar_outputs = True`",
    ),
    (
        "_local_scalar_dense",
        "a number is taken out of a tensor",
        "Keep it a tensor, or set `torch._dynamo.config.capture_scalar_outputs = True`",
    ),
    (
        "Data-dependent branching",
        "Python branches on the value of a tensor",
        "Write the branch as `torch.where(condition, a, b)`",
    ),
    (
        "Dynamic shape operator",
        "the size of a result depends on values, as with `nonzero` or a mask as index",
        "Use `torch.where` with a result of fixed size",
    ),
    (
        "torch._dynamo.graph_break()",
        "the program asks for it with `torch._dynamo.graph_break()`",
        "Remove the call",
    ),
    (
        "torch.compiler.disable()",
        "it calls a function marked `torch.compiler.disable`",
        "Call it outside the compiled part",
    ),
    (
        "logging.Logger",
        "something is logged",
        "Log outside the compiled part",
    ),
    (
        "operator `print`",
        "something is printed",
        "Print outside the compiled part",
    ),
    (
        "Tensor.backward()",
        "`backward()` runs inside the compiled function",
        "Compile the forward and the loss, and call `backward()` outside",
    ),
    (
        "numpy",
        "a tensor is handed to numpy",
        "Use the torch function of the same name",
    ),
    (
        "marked as skipped",
        "it calls a function that the compiler does not enter",
        "Call it outside the compiled part",
    ),
)


class GraphBreaks(Rule):
    """A graph break is a place where `torch.compile` gives up tracing and returns to Python.

    What follows becomes another graph. The operations between two graphs run one by one and none is
    fused across the gap; entering each graph checks its guards anew. The usual reasons are `.item()`, an
    `if` on a tensor, printing, and calls into libraries that the compiler cannot see through.
    Change the named line, or compile only the blocks around it: `model.layer = torch.compile(model.layer)`.
    `torch.compile(model, fullgraph=True)` turns every break into an error that shows its line.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "breaks of the graph: a trace does not tell"
    threshold = "at least one graph break per step (PyTorch: a whole graph is what compiling gains from)"
    knobs = ("compile_region",)
    explains = ("compile_unrecovered", "idle_device")
    recorded = True

    def check(self, profile: Profile) -> Finding:
        compiled = profile.compile
        if compiled is None or not compiled.frames:
            return self.not_applicable("compiled frames", "the program runs nothing under torch.compile")
        if not compiled.breaks and not compiled.breaks_per_step:
            return self.passed(f"0 graph breaks in {compiled.frames} compiled frames")
        per_step = compiled.breaks_per_step
        if per_step is None:
            return self.not_applicable("graph breaks per step", "needs compiled steps that repeat")
        if per_step < BREAKS:
            return self.passed(f"{per_step:,.1f} graph breaks per step")
        title = f"{per_step:,.1f} graph breaks per step"
        breaks = sorted(compiled.breaks, key=lambda each: -each.count)
        worst = breaks[0] if breaks else None
        why, change = _plain(worst)
        advice = f"{change}: {why}." if why else f"{change}."
        evidence = {
            "breaks_per_step": per_step,
            "places": len(breaks),
            "graphs": compiled.graphs,
            "reasons": [_told(each) for each in breaks[:3]],
        }
        location = worst.location if worst is not None else None
        ceiling = self._between(profile)
        if ceiling is None:
            return self.diagnostic(title, advice=advice, location=location, evidence=evidence)
        title += f", {percent(ceiling.share)} of the step outside graphs"
        return self.opportunity(title, ceiling, advice=advice, location=location, evidence=evidence)

    def _between(self, profile: Profile) -> Ceiling | None:
        """Forward and backward outside of graphs; unknown where only a part of the model is compiled."""
        phases, window = profile.phases, profile.window
        if phases is None or window is None or profile.device != "cpu" or phases.step_ms <= 0:
            return None
        in_graphs = sum(op.total_ms for op in window.ops if op.name in GRAPH_OPS)
        if not in_graphs or not any(root.already_compiled for root in profile.roots):
            return None
        return self.modelled((phases.forward_ms + phases.backward_ms - in_graphs) / phases.step_ms)


def _plain(place: GraphBreak | None) -> tuple[str, str]:
    """What a break means and what to write instead, in plain words where they are known."""
    fallback = "Move the call out of the compiled part, or compile only the blocks around it"
    said = place.reason.partition("Hint:")[0].strip() if place is not None else ""  # hints name other cases
    if not said:
        return "", fallback
    for part, why, change in PLAIN:
        if part in said:
            return why, change
    return f"torch.compile says: {said.splitlines()[0][:LONGEST]}", fallback


def _told(place: GraphBreak) -> str:
    why, _ = _plain(place)
    return f"{place.location}: {why}" if place.location is not None else why
