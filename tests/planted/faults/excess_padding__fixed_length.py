"""Short questions are padded to the 256 tokens of the longest text a transformer could be asked."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REPAIRED = "--repaired" in sys.argv
VOCABULARY, LONGEST, WIDTH = 1000, 256, 64


class Questions(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(0)
        lengths = torch.randint(24, 41, (count,), generator=generator).tolist()
        self.rows = [torch.randint(1, VOCABULARY, (n,), generator=generator) for n in lengths]
        self.labels = [int(row.float().mean() > VOCABULARY / 2) for row in self.rows]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], self.labels[index]


def collate(samples):
    rows, labels = zip(*samples, strict=True)
    tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True)
    if not REPAIRED:
        tokens = nn.functional.pad(tokens, (0, LONGEST - tokens.shape[1]))
    return tokens, torch.tensor(labels)


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.positions = nn.Embedding(LONGEST, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, tokens):
        padding = tokens == 0
        states = self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))
        states = self.encoder(states, src_key_padding_mask=padding).masked_fill(padding[..., None], 0)
        return self.head(states.sum(1) / (~padding).sum(1, keepdim=True))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Questions(400), batch_size=8, shuffle=True, collate_fn=collate)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    for epoch in range(1000):
        for tokens, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(tokens), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
