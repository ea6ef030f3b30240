"""A callback evaluates before and while training, first at step 0."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        self.callback = lambda trainer, step: None

    def run(self, data, steps):
        batches = iter(DataLoader(data, batch_size=16, shuffle=True))
        for step in range(steps):
            inputs, labels = next(batches)
            loss = nn.functional.cross_entropy(self.model(inputs), labels)
            self.model.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            print(f"{loss.item():.6f}")
            self.callback(self, step)


def evaluate(trainer, step=0):
    if step % 5:
        return
    trainer.model.eval()
    with torch.no_grad():
        right = sum((trainer.model(x).argmax(1) == y).sum() for x, y in DataLoader(held_out, batch_size=32))
    trainer.model.train()
    print("right", int(right))


data = TensorDataset(torch.randn(256, 8), torch.randint(0, 3, (256,)))
held_out = TensorDataset(torch.randn(64, 8), torch.randint(0, 3, (64,)))
trainer = Trainer(nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3)))
evaluate(trainer)
trainer.callback = evaluate
trainer.run(data, 12)
