"""An encoder runs in ONNX Runtime, a head in torch behind it, and the threads of the first never sleep."""

import io
import sys

import numpy
import onnxruntime
import torch
from torch import nn

import advisor

REPAIRED = "--repaired" in sys.argv
torch.manual_seed(0)
torch.set_num_threads(2)
encoder = nn.Sequential(nn.Linear(256, 768), nn.ReLU(), nn.Linear(768, 256)).eval()
head = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 64)).eval()
stored = io.BytesIO()
torch.onnx.export(encoder, (torch.randn(32, 256),), stored, input_names=["x"], dynamo=True, verbose=False)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 2
if REPAIRED:
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = onnxruntime.InferenceSession(stored.getvalue(), options, providers=["CPUExecutionProvider"])
batches = numpy.random.default_rng(0).normal(size=(64, 32, 256)).astype("float32")
with torch.inference_mode():
    for turn in range(1_000_000):
        with advisor.request():
            features = session.run(None, {"x": batches[turn % 64]})[0]
            head(torch.from_numpy(features))
