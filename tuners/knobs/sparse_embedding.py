"""Gradients of embedding tables that hold only the rows that were read."""

import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

from advisor.profiles.facts.profile import EmbeddingFacts, Profile
from advisor.tuners.knob import Change, Config, Refused, Semantics
from advisor.tuners.mechanisms.computed import gradient_norms
from advisor.tuners.on_off_knob import Switch

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer

TAKING = ("SGD", "Adagrad", "SparseAdam")  # Adam and AdamW raise
WRITE = "with torch.optim.SparseAdam, or SGD or Adagrad without fused"
DECAYED = "weight decay moves every row, which sparse gradients exclude"
FUSED = "a fused update takes no sparse gradients"


class SparseEmbedding(Switch):
    """Lets embedding tables give sparse gradients, so that a step costs by the rows that it reads.

    A dense gradient is as large as the table: it is filled with zeros, and the update goes through all
    rows. A recommender ran 3.1 times as fast without (2-core CPU).

    SGD and Adagrad without `fused` and without weight decay compute the same numbers from sparse
    gradients, in another order. Adam and AdamW reject them; `SparseAdam` takes them and learns
    differently, since rows that are not read keep their moments. So does every change of the optimizer,
    which is why scripts and other optimizers get advice only. Tables that also serve as an output layer
    need the dense gradient, and clipping by norm rejects sparse ones.
    """

    semantics = Semantics.ROUNDING
    usual_gain = 0.65
    acts_on = ("backward", "optimizer")
    written = ("sparse=true",)

    def __init__(self) -> None:
        self._switched: weakref.WeakSet[Module] = weakref.WeakSet()

    def refusal(self, profile: Profile) -> str | None:
        tables = [table for root in profile.roots for table in root.embeddings]
        dense = [table for table in tables if not table.sparse and not table.tied]
        if not dense:
            if not tables:
                return "the model has no embedding table"
            return "every embedding table gives sparse gradients already, or is shared with another layer"
        if profile.target_kind == "script":
            return f"a script builds its own tables: {_advice(dense)}"
        if not profile.optimizers:
            return "parameters are updated without torch.optim"
        for facts in profile.optimizers:
            if facts.name not in TAKING:
                return f"{facts.name} takes no sparse gradients: {_advice(dense)}"
            if facts.fused:
                return f"{FUSED}: {_advice(dense)}"
        if gradient_norms(profile) in ("foreach", "for-loop"):
            return "gradients are clipped by their norm, which torch does not compute of sparse ones"
        return None

    def prepare(self, config: Config, present: Config) -> None:
        """Look at the other changes.

        Raises:
            Refused: The update is fused.
        """
        if config.get("optimizer_implementation") == "fused":
            raise Refused(FUSED)

    def model(self, root: "Module", value: str) -> "Module":
        """Switch the tables of the root that no other module shares."""
        if value == "on":
            for table in _tables(root):
                table.sparse = True
                self._switched.add(table)
        return root

    def optimizer(self, optimizer: "Optimizer", value: str) -> None:
        """Check the optimizer of the tables, whose first sparse gradients are there.

        Raises:
            Refused: There are no such tables, or it cannot update them; all is dense again.
        """
        reason = self._reason_against(optimizer) if value == "on" else None
        if reason is not None:
            self._switch_back()
            raise Refused(reason)

    def change(self, value: str) -> Change:
        if value == "off":
            return Change("# leave sparse out of nn.Embedding")
        return Change(f"nn.Embedding(rows, columns, sparse=True)  # update it {WRITE}")

    def _reason_against(self, optimizer: "Optimizer") -> str | None:
        if not self._switched:
            return "no embedding table of its own gives dense gradients"
        groups = [
            group
            for group in optimizer.param_groups
            if {id(table.weight) for table in self._switched} & {id(each) for each in group["params"]}
        ]
        if groups and type(optimizer).__name__ not in TAKING:
            return f"{type(optimizer).__name__} takes no sparse gradients"
        if any(group.get("fused") for group in groups):
            return FUSED
        return DECAYED if any(group.get("weight_decay") for group in groups) else None

    def _switch_back(self) -> None:
        for table in self._switched:
            held: Any = table
            held.sparse = False
            if held.weight.grad is not None:
                held.weight.grad = held.weight.grad.to_dense()
        self._switched.clear()


def _advice(tables: list[EmbeddingFacts]) -> str:
    largest = max(tables, key=lambda table: table.rows * table.columns)
    return (
        f"write nn.Embedding({largest.rows}, {largest.columns}, sparse=True) for `{largest.name}` and update "
        f"it {WRITE}"
    )


def _tables(root: "Module") -> list[Any]:
    """Embedding tables with dense gradients whose weight no other module uses."""
    from torch import nn

    modules = list(root.modules())
    uses = Counter(id(each) for module in modules for each in module.parameters(recurse=False))
    return [
        module
        for module in modules
        if isinstance(module, (nn.Embedding, nn.EmbeddingBag))
        and not module.sparse
        and uses[id(module.weight)] == 1
        and getattr(module, "mode", None) != "max"  # of a bag: has no sparse gradient
        and not module.scale_grad_by_freq
    ]
