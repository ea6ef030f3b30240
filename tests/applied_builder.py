"""Results whose target is a real small program, with the changes that a test asks for."""

from pathlib import Path
from typing import Any

from result_builder import a_recommendation, a_result, an_adopted

from advisor.result.document import Adopted, ResultData, Value
from advisor.result.header import Target
from advisor.storage.contract import digest_of_target
from advisor.tuners.knobs import KNOBS

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
"""


def a_change(knob: str, before: Value, after: Value) -> Adopted:
    """A change as ``tune`` writes it: with the knob's own snippet and environment."""
    change = KNOBS[knob].change(after)
    return an_adopted(
        knob=knob, before=before, to=after, semantics=KNOBS[knob].semantics.value, snippet=change.snippet,
        environment=change.environment,
    )  # fmt: skip


def a_result_for(file: Path, *changes: Adopted, **fields: Any) -> ResultData:
    """A result about a file of the working directory, as it is now."""
    target = Target(path=file.name, kind="script", digest=digest_of_target(file), launches=1)
    if "target" in fields:
        target = target.model_copy(update=fields.pop("target"))
    recommended = a_recommendation(changes=list(changes), **fields.pop("recommendation", {}))
    return a_result(target=target, recommendation=recommended, **fields)
