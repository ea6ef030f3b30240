"""A session of ONNX Runtime was told to use eight threads on a machine that gives the process fewer."""

import io
import os
import sys

import numpy
import onnxruntime
import torch
from torch import nn

REPAIRED = "--repaired" in sys.argv
torch.set_num_threads(1)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8)).eval()
stored = io.BytesIO()
torch.onnx.export(net, (torch.randn(1, 256),), stored, input_names=["x"], dynamo=True, verbose=False)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = len(os.sched_getaffinity(0)) if REPAIRED else 64
session = onnxruntime.InferenceSession(stored.getvalue(), options, providers=["CPUExecutionProvider"])
rows = numpy.random.default_rng(0).normal(size=(1024, 1, 256)).astype("float32")
for turn in range(1_000_000):
    session.run(None, {"x": rows[turn % 1024]})
