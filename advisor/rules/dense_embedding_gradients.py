"""The gradient of a whole embedding table is written though a step reads few of its rows."""

from advisor.advice.finding import Finding, Kind
from advisor.advice.rule import Family, Rule, percent
from advisor.profiles.facts.profile import EmbeddingFacts, Profile
from advisor.profiles.facts.recorded import Window

TOUCHED = 0.1  # of the rows, per step; set by experiment
THRESHOLD = 0.05  # of the step, for gradient and update of such tables; set by experiment
GRADIENTS = ("aten::embedding_dense_backward", "aten::_embedding_bag_dense_backward")
MATMULS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::linear")


class DenseEmbeddingGradients(Rule):
    """An embedding reads a few rows per step, but its gradient is dense: as large as the whole table.

    Every step fills that gradient with zeros, adds the few rows that were read, and lets the optimizer go
    through all rows and their state. The ceiling is the time of gradient and update, the latter by the
    table's share of all parameter bytes, times the share of rows that no batch touched.
    Build it with `nn.Embedding(rows, columns, sparse=True)` and update it with an optimizer that takes
    sparse gradients: `torch.optim.SparseAdam`, or SGD or Adagrad without `fused`. Rows that a step does not
    read then keep their value, where Adam's momentum or weight decay would have moved them. A recommender
    ran 3.1 times as fast (2-core CPU). Tables that also serve as an output layer need the dense gradient.
    """

    family = Family.COMPUTE
    kind = Kind.WASTE
    on_traces = "embedding tables and the rows that a step reads: a trace does not hold them"
    threshold = "under 10 % of rows read per step, gradient and update at least 5 % of it (set by experiment)"
    knobs = ("sparse_embedding",)
    explains = ("optimizer_bound",)
    recorded = True

    def check(self, profile: Profile) -> Finding:
        phases, window = profile.phases, profile.window
        tables = [table for root in profile.roots for table in root.embeddings]
        if not tables:
            return self.not_applicable("embedding table", "the model has none")
        if phases is None or phases.step_ms <= 0:
            return self.not_applicable("no steps were recorded")
        if window is None:
            return self.not_applicable("operators", "needs a recorded window")
        dense = [table for table in tables if not table.sparse]
        if not dense:
            return self.passed(f"0 of {len(tables)} embedding tables have dense gradients")
        if all(table.touched_share is None for table in dense):
            return self.not_applicable("rows touched per step", "needs batches that the tables were given")
        total = _parameter_bytes(profile)
        if not total:
            return self.not_applicable("bytes of parameters", "no optimizer or model says them")
        gradients_ms = sum(op.total_ms for op in window.ops if op.name in GRADIENTS)
        if not gradients_ms:
            return self.passed("0 ms of dense embedding gradients per step")
        costs = {}
        for table in dense:
            if table.touched_share is None or table.touched_share >= TOUCHED or _also_dense(table, window):
                continue
            update = phases.optimizer_ms * min(1.0, _bytes(table) / total)
            gradient = gradients_ms * _bytes(table) / sum(map(_bytes, dense))
            costs[table] = update + gradient
        share = sum(costs.values()) / phases.step_ms
        said = f"{percent(share)} of each step updates embedding rows, of which under 10 % were read"
        if share < THRESHOLD:
            return self.passed(f"{percent(share)} of the step goes to dense gradients of rarely read tables")
        worst = max(costs, key=lambda table: costs[table])
        touched = worst.touched_share or 0.0
        avoidable = sum(spent * (1 - (table.touched_share or 0.0)) for table, spent in costs.items())
        return self.opportunity(
            f"{said} (`{worst.name}`: {percent(touched)})",
            self.modelled(avoidable / phases.step_ms),
            advice=f"Build `{worst.name}` with `nn.Embedding({worst.rows}, {worst.columns}, sparse=True)` "
            "and update it with `torch.optim.SparseAdam`; this changes training: rows that a step does "
            "not read are no longer moved by momentum or weight decay.",
            location=next((root.location for root in profile.roots if worst in root.embeddings), None),
            evidence={
                "tables": [table.name for table in costs],
                "touched_share": round(touched, 5),
                "gradient_ms": round(gradients_ms, 4),
                "optimizer_ms": round(phases.optimizer_ms, 4),
            },
        )


def _bytes(table: EmbeddingFacts) -> int:
    return table.parameter_bytes or 4 * table.rows * table.columns


def _parameter_bytes(profile: Profile) -> int:
    updated = sum(optimizer.parameter_bytes or 0 for optimizer in profile.optimizers)
    return updated or sum(root.parameter_bytes for root in profile.roots)


def _also_dense(table: EmbeddingFacts, window: Window) -> bool:
    """Whether its weight is also multiplied as a matrix; where not known, by a matmul of its shape."""
    if table.tied is not None:
        return table.tied
    shapes = {(table.rows, table.columns), (table.columns, table.rows)}
    return any(shapes.intersection(op.shapes) for op in window.ops if op.name in MATMULS)
