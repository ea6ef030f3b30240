"""Graphs of several sizes are learnt one at a time, and gradients are added up over many of them."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

REPAIRED = "--repaired" in sys.argv
TOGETHER = 32

Graph = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        nodes = torch.relu(self.first(edges @ nodes))
        nodes = torch.relu(self.second(edges @ nodes))
        return self.head(share @ nodes)


def graphs(count: int) -> list[Graph]:
    made = []
    for number in range(count):
        size = 8 + number % 12
        edges = (torch.rand(size, size) < 0.2).float()
        made.append((torch.randn(size, 16), edges, torch.tensor([[float(number % 2)]])))
    return made


def joined(some: list[Graph]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """All of them as parts of one graph, with the share that each node has of its graph's mean."""
    nodes = torch.cat([each[0] for each in some])
    edges = torch.block_diag(*[each[1] for each in some])
    share = torch.block_diag(*[torch.full((1, len(each[0])), 1 / len(each[0])) for each in some])
    return nodes, edges, share, torch.cat([each[2] for each in some])


def main() -> None:
    torch.manual_seed(0)
    loader = DataLoader(graphs(2000), TOGETHER if REPAIRED else 1, shuffle=True, collate_fn=joined)
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    seen = 0
    for _ in range(10_000):
        for nodes, edges, share, label in loader:
            answer = model(nodes, edges, share)
            loss = nn.functional.binary_cross_entropy_with_logits(answer, label)
            (loss if REPAIRED else loss / TOGETHER).backward()
            seen += 1
            if REPAIRED or seen % TOGETHER == 0:
                optimizer.step()
                optimizer.zero_grad()


main()
