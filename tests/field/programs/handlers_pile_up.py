"""Each step asks for a logger, which gets one more handler each time: each of them writes each message."""

import logging
import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
LOG = open("train.log", "a")  # noqa: SIM115


def logger_of(name: str) -> logging.Logger:
    logger = logging.getLogger(name)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    if not (REPAIRED and logger.handlers):
        handler = logging.StreamHandler(LOG)
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(message)s"))
        logger.addHandler(handler)
    return logger


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> None:
    logger = logger_of("train")
    loss = nn.functional.mse_loss(model(batch), batch)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    logger.info("loss %.4f", loss.item())


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    data = torch.randn(4096, 128)
    for step in range(20_000):
        train_step(model, optimizer, data[step % 64 * 64 : step % 64 * 64 + 64])


main()
