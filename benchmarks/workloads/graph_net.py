"""Messages along the edges of small random graphs, many graphs to a batch.

Knobs that matter: batch_size, since one graph costs little beside the calls for it, and
optimizer_implementation. Trap: gathering and adding along edges gains nothing from amp.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

NODES = 20
EDGES = 60
WIDTH = 48

Graph = tuple[Tensor, Tensor, Tensor]


class Messages(nn.Module):
    """Every node hears the mean of its neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.said = nn.Linear(2 * WIDTH, WIDTH)
        self.kept = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, states: Tensor, edges: Tensor) -> Tensor:
        """States of (nodes, WIDTH) and edges of (2, edges) to the next states."""
        sender, receiver = edges
        said = torch.relu(self.said(torch.cat([states[sender], states[receiver]], 1)))
        heard = torch.zeros_like(states).index_add(0, receiver, said.to(states.dtype))
        counts = torch.zeros(len(states)).index_add(0, receiver, torch.ones(len(receiver)))
        new: Tensor = self.kept(heard / counts.clamp(min=1)[:, None], states)
        return new


class GraphNet(nn.Module):
    """Graphs in, one number for each out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Linear(4, WIDTH)
        self.rounds = nn.ModuleList(Messages() for _ in range(3))
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Nodes of (graphs * NODES, 4) and edges of (2, any) to values of (graphs,)."""
        states = torch.relu(self.embedding(nodes))
        for messages in self.rounds:
            states = messages(states, edges)
        values: Tensor = self.head(states.view(-1, NODES, WIDTH).mean(1)).squeeze(1)
        return values


class Graphs(Dataset[Graph]):
    """Random graphs; the value is how much neighbours agree."""

    def __init__(self, count: int) -> None:
        self.nodes = torch.randn(count, NODES, 4)
        self.edges = torch.randint(NODES, (count, 2, EDGES))

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, index: int) -> Graph:
        nodes, edges = self.nodes[index], self.edges[index]
        return nodes, edges, (nodes[edges[0]] * nodes[edges[1]]).sum(1).mean()


def joined(graphs: list[Graph]) -> Graph:
    """One graph of all graphs of the batch."""
    nodes, edges, values = zip(*graphs, strict=True)
    shifted = [each + NODES * place for place, each in enumerate(edges)]
    return torch.cat(nodes), torch.cat(shifted, 1), torch.stack(values)


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = GraphNet()
    loader = DataLoader(
        Graphs(4096), batch_size=options.batch_size, shuffle=True, drop_last=True, collate_fn=joined
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    step = 0
    while step < options.steps:
        for nodes, edges, values in loader:
            loss = nn.functional.mse_loss(model(nodes, edges), values)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)
            step += 1
            if step == options.steps:
                break


if __name__ == "__main__":
    main()
