"""An average of the weights is kept, one entry of the state after the other in every step."""

import copy
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
DECAY = 0.999


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.inner = nn.Linear(width, width)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values + torch.relu(self.inner(self.norm(values)))


class Average:
    """The model as it was on average."""

    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model).eval()
        self.own = [each for each in self.model.state_dict().values() if each.is_floating_point()]
        self.others = [each for each in model.state_dict().values() if each.is_floating_point()]

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        if REPAIRED:
            torch._foreach_lerp_(self.own, self.others, 1 - DECAY)
            return
        new = model.state_dict()
        for name, value in self.model.state_dict().items():
            if value.is_floating_point():
                value.mul_(DECAY).add_((1 - DECAY) * new[name].detach())


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 48), *(Block(48) for _ in range(60)), nn.Linear(48, 8))
    average = Average(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01, fused=True)
    data, wanted = torch.randn(4096, 64), torch.randint(8, (4096,))
    for step in range(1_000_000):
        rows = slice(step % 128 * 32, step % 128 * 32 + 32)
        loss = nn.functional.cross_entropy(model(data[rows]), wanted[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)


main()
