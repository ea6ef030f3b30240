"""The program chooses its batches itself: sequences of like length together."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Sampler

torch.manual_seed(0)


class ByLength(Sampler):
    def __init__(self, lengths, size):
        self.order = sorted(range(len(lengths)), key=lengths.__getitem__)
        self.size = size

    def __iter__(self):
        for start in range(0, len(self.order), self.size):
            yield self.order[start : start + self.size]

    def __len__(self):
        return -(-len(self.order) // self.size)


def collate(rows):
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


rows = [torch.randn(3 + i % 7, 4) for i in range(80)]
loader = DataLoader(rows, batch_sampler=ByLength([len(row) for row in rows], 8), collate_fn=collate)
model = nn.LSTM(4, 4, batch_first=True)
optimizer = torch.optim.Adadelta(model.parameters())
for batch in loader:
    loss = (model(batch)[0] - batch).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
