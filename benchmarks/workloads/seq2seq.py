"""A transformer of encoder and decoder that learns to turn sequences round.

Knobs that matter: batch_size and num_threads. Trap: masks and teacher forcing make operators of many shapes,
most of them too small for two threads at the batch the program asks for.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

VOCABULARY = 64
LENGTH = 16
WIDTH = 96
START = 0


class Turner(nn.Module):
    """Tokens and the answer so far in, scores of the next tokens out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.transformer = nn.Transformer(
            WIDTH, 4, num_encoder_layers=2, num_decoder_layers=2, dim_feedforward=4 * WIDTH, dropout=0.0,
            batch_first=True,
        )  # fmt: skip
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.register_buffer("later", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens: Tensor, answer: Tensor) -> Tensor:
        """Both of (batch, LENGTH); scores of (batch, LENGTH, VOCABULARY)."""
        source, target = (self.embedding(each) + self.places for each in (tokens, answer))
        scores: Tensor = self.head(self.transformer(source, target, tgt_mask=self.later, tgt_is_causal=True))
        return scores


def main() -> None:
    """Train until the steps are done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--batch-size", type=int, default=16)
    options = parser.parse_args()

    torch.manual_seed(0)
    model = Turner()
    sequences = TensorDataset(torch.randint(1, VOCABULARY, (4096, LENGTH)))
    loader = DataLoader(sequences, batch_size=options.batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)

    step = 0
    while step < options.steps:
        for (tokens,) in loader:
            turned = tokens.flip(1)
            so_far = nn.functional.pad(turned[:, :-1], (1, 0), value=START)
            loss = nn.functional.cross_entropy(model(tokens, so_far).flatten(0, 1), turned.flatten())
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
