"""An example: a training step may not take more memory than it did, and may not leak."""
import os

import torch
from torch import nn


def train(steps, width):
    model = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(steps):
        with torch.profiler.record_function(f"## step {step} ##"):
            x = torch.randn(1024, width, device="cuda")
            loss = (model(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def test_training_step(gpu_memory):
    width = int(os.environ.get("WIDTH", "1024"))
    with gpu_memory("--max-leak-per-step", "1MiB"):
        train(steps=8, width=width)
