"""The weights of the edges of a graph that stays the same are computed in every layer of every step."""

import sys

import torch
from torch import Tensor, nn

REPAIRED = "--repaired" in sys.argv
NODES, EDGES, WIDTH = 1000, 5_000, 16


def scaled(edges: Tensor, nodes: int) -> tuple[Tensor, Tensor]:
    """Edges with loops, once each, and their weights by the degrees of both ends."""
    loops = torch.arange(nodes).repeat(2, 1)
    both = torch.unique(torch.cat([edges, edges.flip(0), loops], 1), dim=1)
    degree = torch.zeros(nodes).index_add_(0, both[0], torch.ones(both.shape[1]))
    rate = degree.rsqrt()
    return both, rate[both[0]] * rate[both[1]]


class Convolution(nn.Module):
    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)
        self.kept: tuple[Tensor, Tensor] | None = None

    def forward(self, values: Tensor, edges: Tensor) -> Tensor:
        if self.kept is None or not REPAIRED:
            self.kept = scaled(edges, len(values))
        both, weights = self.kept
        sent = self.linear(values)[both[0]] * weights[:, None]
        return torch.zeros(len(values), sent.shape[1]).index_add_(0, both[1], sent)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Convolution(WIDTH, WIDTH), Convolution(WIDTH, 4)

    def forward(self, values: Tensor, edges: Tensor) -> Tensor:
        return self.second(torch.relu(self.first(values, edges)), edges)


def main() -> None:
    torch.manual_seed(0)
    edges, values = torch.randint(NODES, (2, EDGES)), torch.randn(NODES, WIDTH)
    wanted = torch.randint(4, (NODES,))
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(100_000):
        loss = nn.functional.cross_entropy(model(values, edges), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
