"""The state of a recurrent network goes into the next step with all that it was computed from."""

import sys

import torch
from torch import Tensor, nn

REPAIRED = "--repaired" in sys.argv


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(32, 64)
        self.out = nn.Linear(64, 8)

    def forward(self, values: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        for place in range(values.shape[1]):
            state = self.cell(values[:, place], state)
        return self.out(state), state


def main() -> None:
    torch.manual_seed(0)
    model = Reader()
    optimizer = torch.optim.SGD(model.out.parameters(), 0.001)  # the recurrent part stays as it was made
    state = torch.zeros(16, 64)
    for _ in range(100_000):
        values, wanted = torch.randn(16, 8, 32), torch.randint(8, (16,))
        answers, state = model(values, state)
        loss = nn.functional.cross_entropy(answers, wanted)
        optimizer.zero_grad()
        loss.backward(retain_graph=not REPAIRED)
        optimizer.step()
        if REPAIRED:
            state = state.detach()


main()
