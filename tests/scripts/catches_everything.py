"""Swallows every exception, and leaves a thread, a finally and an atexit function behind."""

import atexit
import threading

import torch

torch.manual_seed(0)
atexit.register(lambda: print("atexit"))
done = threading.Event()
watcher = threading.Thread(target=done.wait)
watcher.start()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
try:
    for step in range(20):
        try:
            inputs = torch.randn(16, 4)
            loss = (model(inputs) - 1).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            if step == 3:
                optimizer.step(lambda: 1 / 0)
            optimizer.step()
            print(f"{loss.item():.6f}")
        except:  # noqa: E722
            print("caught")
finally:
    done.set()
    watcher.join()
    print("finally")
