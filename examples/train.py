"""A small training program that records what it asks of the GPU's memory.

python train.py --steps 8 --snapshot run.pickle
"""
import argparse

import torch
from torch import nn


def record(entries=1_000_000):
    """Starts recording. To be called before anything is allocated."""
    options = dict(max_entries=entries, stacks="python")
    try:  # PyTorch 2.8 and later: the names given by record_function go into the snapshot
        torch.cuda.memory._record_memory_history(global_record_annotations=True, **options)
    except TypeError:
        torch.cuda.memory._record_memory_history(**options)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--width", type=int, default=2048)
    p.add_argument("--snapshot", default="run.pickle")
    args = p.parse_args()

    record()
    torch.manual_seed(0)
    layers = [nn.Linear(args.width, 4 * args.width), nn.GELU(), nn.Linear(4 * args.width, args.width)]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(args.steps):
        with torch.profiler.record_function(f"## step {step} ##"):
            x = torch.randn(1024, args.width, device="cuda")
            loss = (model(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.cuda.synchronize()
    torch.cuda.memory._dump_snapshot(args.snapshot)
    torch.cuda.memory._record_memory_history(enabled=None)


if __name__ == "__main__":
    main()
