"""A session of ONNX Runtime with one thread that sleeps while nothing is asked."""

import io

import numpy
import onnxruntime
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512), nn.Tanh()).eval()
stored = io.BytesIO()
torch.onnx.export(model, (torch.randn(1, 512),), stored, input_names=["x"], dynamo=True, verbose=False)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = onnxruntime.InferenceSession(stored.getvalue(), options, providers=["CPUExecutionProvider"])
rows = numpy.random.default_rng(0).normal(size=(256, 1, 512)).astype("float32")
for turn in range(1_000_000):
    session.run(None, {"x": rows[turn % 256]})
