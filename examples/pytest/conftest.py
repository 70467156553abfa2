"""A fixture that lets a test fail when it takes more GPU memory than it did.

Copy this file beside your tests. VRAMSCOPE names the program if it is not on the PATH.

    def test_step(gpu_memory):
        with gpu_memory("--max-leak-per-step", "1MiB"):
            train(steps=8)

The first run writes a baseline to memory/NAME.json beside the test; commit it. Later runs are compared with it.
pytest --write-memory-baselines writes them anew, when growth is meant.
"""
import contextlib
import gc
import os
import re
import shutil
import subprocess

import pytest


def pytest_addoption(parser):
    parser.addoption("--write-memory-baselines", action="store_true", help="take what the tests use now as their baselines")


def start_recording(torch):
    options = dict(max_entries=1_000_000, stacks="python")
    try:  # PyTorch 2.8 and later: the names given by record_function go into the snapshot
        torch.cuda.memory._record_memory_history(global_record_annotations=True, **options)
    except TypeError:
        torch.cuda.memory._record_memory_history(**options)


@pytest.fixture
def gpu_memory(request, tmp_path):
    """Gives a context manager that records what is allocated within it and checks that with vramscope; its arguments
    are further flags of `vramscope check`."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU to record on")
    program = os.environ.get("VRAMSCOPE", "vramscope")
    if shutil.which(program) is None:
        pytest.fail(f"{program} is not on the PATH", pytrace=False)
    name = re.sub(r"[^\w.-]+", "_", request.node.name)
    baseline = request.path.parent / "memory" / f"{name}.json"
    rewrite = request.config.getoption("--write-memory-baselines") or not baseline.exists()

    @contextlib.contextmanager
    def recorded(*flags):
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # what earlier tests have left in the cache is none of this one's
        start_recording(torch)
        snapshot = tmp_path / "run.pickle"
        try:
            yield snapshot
            torch.cuda.synchronize()
            torch.cuda.memory._dump_snapshot(str(snapshot))
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)
        against = "--write-baseline" if rewrite else "--baseline"
        baseline.parent.mkdir(exist_ok=True)
        command = [program, "check", str(snapshot), against, str(baseline), *flags]
        check = subprocess.run(command, capture_output=True, text=True)
        print(check.stdout)
        if check.returncode == 1:
            pytest.fail(check.stdout, pytrace=False)
        elif check.returncode != 0:
            pytest.fail(f"{' '.join(command)}: exit code {check.returncode}\n{check.stderr}", pytrace=False)

    return recorded
