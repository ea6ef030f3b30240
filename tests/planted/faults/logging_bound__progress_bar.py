"""Two progress bars, of the run and of the epoch, are redrawn after each of many short steps."""

import sys

import torch
from torch import nn
from tqdm import tqdm

REPAIRED = "--repaired" in sys.argv
INTERVAL = {"mininterval": 5.0} if REPAIRED else {"mininterval": 0.0, "miniters": 1}
EVERY = 500 if REPAIRED else 1
BATCH, STEPS, EPOCHS = 256, 2000, 1000


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
        self.mean = nn.Linear(64, 4)
        self.value = nn.Linear(64, 1)

    def forward(self, states):
        hidden = self.body(states)
        return self.mean(hidden), self.value(hidden).squeeze(1)


def main():
    torch.manual_seed(0)
    states = torch.randn(BATCH, 24)
    actions, returns = states[:, :4].sin(), states.mean(1)
    model = Actor()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tqdm(total=EPOCHS * STEPS, desc="run", position=0, **INTERVAL) as run:
        for epoch in range(EPOCHS):
            with tqdm(total=STEPS, desc=f"epoch {epoch}", position=1, leave=False, **INTERVAL) as bar:
                for step in range(STEPS):
                    optimizer.zero_grad()
                    mean, value = model(states)
                    policy_loss = nn.functional.mse_loss(mean, actions)
                    value_loss = nn.functional.mse_loss(value, returns)
                    loss = policy_loss + 0.5 * value_loss
                    loss.backward()
                    optimizer.step()
                    if step % EVERY == 0:
                        bar.set_postfix(loss=loss.item(), lr=0.01, step=step, epoch=epoch, batch=BATCH)
                    bar.update()
                    run.update()


if __name__ == "__main__":
    main()
