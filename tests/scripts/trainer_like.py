"""What a framework does: a second loader from the first, columns chosen by the forward's signature."""

import inspect
from collections import UserDict

import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
KEPT = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "generator")


class Encoding(UserDict):
    def __getattr__(self, name):
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(name) from None


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.encoder = nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, input_ids, labels=None):
        state = self.encoder(self.embedding(input_ids))[1][0]
        logits = self.head(state)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Prepared:
    """Stands in for the loader that it was given, over a loader of its own."""

    def __init__(self, loader):
        arguments = {name: getattr(loader, name) for name in KEPT}
        if loader.num_workers:
            arguments["prefetch_factor"] = loader.prefetch_factor
        self.inner = DataLoader(loader.dataset, batch_sampler=loader.batch_sampler, **arguments)

    def __iter__(self):
        yield from self.inner


def collate(rows):
    return Encoding({name: torch.stack([row[name] for row in rows]) for name in rows[0] if name in columns})


model = Classifier()
columns = list(inspect.signature(model.forward).parameters)
rows = [
    {"input_ids": torch.randint(0, 20, (6,)), "labels": torch.tensor(i % 2), "extra": torch.ones(1)}
    for i in range(96)
]
loader = Prepared(DataLoader(rows, batch_size=8, shuffle=True, collate_fn=collate))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for batch in loader:
    output = model(**batch)
    output["loss"].backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{output['loss'].item():.6f}")
print(columns, list(inspect.signature(model.forward).parameters))
