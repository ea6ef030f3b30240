"""A function that trains one epoch builds its DataLoader, workers and all, each time it is called."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv


class Sentences(Dataset):
    """Token ids; the label says whether the first half holds more than the second."""

    def __init__(self, count, length=40, vocabulary=500):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(1, vocabulary, (count, length), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        tokens = self.tokens[index]
        first, second = tokens.chunk(2)
        noisy = tokens.clone()
        for place in torch.randperm(len(tokens) - 1)[:4].tolist():  # neighbours swapped, as typing does
            noisy[place : place + 2] = noisy[place : place + 2].flip(0)
        return noisy, (first.sum() > second.sum()).long()


class Classifier(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.embedding = nn.Embedding(500, width)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0][:, -1])


def make_loader(dataset):
    return DataLoader(dataset, batch_size=32, shuffle=True, num_workers=2, persistent_workers=REPAIRED)


def train_epoch(model, optimizer, dataset, loader=None):
    if loader is None:
        loader = make_loader(dataset)
    for tokens, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    dataset = Sentences(192)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = make_loader(dataset) if REPAIRED else None
    for epoch in range(5000):
        loss = train_epoch(model, optimizer, dataset, loader)
        if epoch % 20 == 0:
            print(f"epoch {epoch} loss {loss:.4f}", flush=True)
