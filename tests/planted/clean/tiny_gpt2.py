"""A tiny GPT-2 of the transformers library in a loop of its own."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

LENGTH = 48

torch.manual_seed(0)
config = GPT2Config(
    vocab_size=96,
    n_positions=LENGTH,
    n_embd=96,
    n_layer=3,
    n_head=4,
    resid_pdrop=0.0,
    embd_pdrop=0.0,
    attn_pdrop=0.0,
    bos_token_id=0,
    eos_token_id=0,
)
model = GPT2LMHeadModel(config)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
song = torch.randint(96, (301,)).repeat(100)
for step in range(100_000):
    starts = torch.randint(len(song) - LENGTH, (16, 1))
    text = song[starts + torch.arange(LENGTH)]
    loss = model(input_ids=text, labels=text).loss
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 100 == 0:
        print(f"step {step}: {loss.item():.4f}", flush=True)
