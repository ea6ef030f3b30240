"""A loss goes through its samples in Python; repaired, masks and one product compute it for all at once."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

REPAIRED = "--repaired" in sys.argv
MARGIN = 0.5


class CentreLoss(nn.Module):
    """Each sample shall lie nearer to the mean of its own class than to that of the others."""

    def forward(self, embedded: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The mean over samples of shape (N, width) with labels of shape (N,)."""
        if REPAIRED:
            same = (labels[:, None] == labels[None]).float()
            own = same @ embedded / same.sum(1, keepdim=True)
            other = (1 - same) @ embedded / (1 - same).sum(1, keepdim=True)
            return torch.relu((embedded - own).norm(dim=1) - (embedded - other).norm(dim=1) + MARGIN).mean()
        total = embedded.new_zeros(())
        for index in range(len(embedded)):
            own = embedded[labels == labels[index]].mean(0)
            other = embedded[labels != labels[index]].mean(0)
            gap = (embedded[index] - own).norm() - (embedded[index] - other).norm()
            total = total + torch.relu(gap + MARGIN)
        return total / len(embedded)


def main() -> None:
    """Train on random samples."""
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(8192, 128), torch.randint(0, 4, (8192,)))
    loader = DataLoader(data, batch_size=64, shuffle=True, drop_last=True)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = CentreLoss()
    for _ in range(40):
        for samples, labels in loader:
            optimizer.zero_grad()
            criterion(model(samples), labels).backward()
            optimizer.step()


main()
