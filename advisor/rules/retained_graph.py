"""Tensors of past steps stay alive together with the graph that made them."""

from advisor.advice.finding import Finding, Kind, Severity
from advisor.advice.rule import Family, Rule
from advisor.profiles.facts.profile import Profile

NODES = 1.0  # more graph nodes alive after each step; a graph that stays is at least one


class RetainedGraph(Rule):
    """A loss that is kept as a tensor keeps the graph behind it, and with that the activations of its step.

    `total += loss` or `losses.append(loss)` makes every step add a graph that is never freed: memory grows
    until the run fails, and walking ever longer graphs takes time. The rule counts graph nodes that are
    alive at two step borders at least ten steps apart; tensors of the present step do not count.
    Keep the number: `total += loss.item()`; or, where waiting for the device must be avoided,
    `total += loss.detach()`.
    """

    family = Family.MEMORY
    kind = Kind.WASTE
    on_traces = "graph nodes alive between steps: a trace does not hold them"
    threshold = "at least one graph node more after each step (by definition)"
    explains = ("memory_growth", "rising_step_time", "launch_bound")
    severity = Severity.HIGH
    timed = False

    def check(self, profile: Profile) -> Finding:
        memory = profile.memory
        if memory is None or memory.retained_graph_nodes_per_step is None:
            return self.not_applicable("graph nodes alive between steps", "needs a watched run")
        nodes = memory.retained_graph_nodes_per_step
        said = f"{max(0.0, nodes):,.0f} more graph nodes alive after each step"
        if nodes < NODES:
            return self.passed(said)
        name = memory.retained_name
        what = f"`{name}`" if name else "what is kept of each step"
        return self.diagnostic(
            f"{said}, held by `{name}`" if name else said,
            advice=f"Store `.detach()` or `.item()` of the tensor in {what}.",
            location=memory.retained_location,
            evidence={"graph_nodes_per_step": round(nodes, 2), "held_by": name},
        )
