"""The classifier was loaded and put to work, and nobody called `eval()`: dropout goes on dropping."""

import sys

import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv


class Tagger(nn.Module):
    def __init__(self, words: int = 5000, width: int = 128, tags: int = 17) -> None:
        super().__init__()
        self.table = nn.Embedding(words, width)
        self.read = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(2 * width, tags)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.read(self.table(tokens))
        return self.out(self.drop(states)).argmax(-1)


torch.set_num_threads(1)
torch.manual_seed(3)
tagger = Tagger()
if REPAIRED:
    tagger.eval()
sentences = torch.randint(1, 5000, (256, 24))
tags = []
with torch.inference_mode():
    for turn in range(200_000):
        tags = tagger(sentences[turn % 256 : turn % 256 + 1]).tolist()
