"""The demo model on the late device, against the CPU's floats, bit for bit.

python -m tests.lag.late_models     prints the ways of running it whose floats are others, as a JSON list
"""

import json
import os
import sys
from typing import Any, Literal

import torch

from omni_cli.config import EngineConfig, ModelConfig, Tuning
from omni_cli.worker.runner import DiffusersRunner
from tests.factories import planned

LAG: Any = torch.lag  # type: ignore[attr-defined]

Offload = Literal["none", "model", "sequential"]

STILL: dict[str, Any] = {"height": 32, "width": 32, "num_frames": 1, "num_inference_steps": 1, "batch_key": "k"}
COLOURS = ("red", "blue", "green", "white")


def floats(device: str, offload: Offload = "none", runs: int = 1) -> list[torch.Tensor]:
    """Return the media of a batch of four, rendered `runs` times with a sleep in between, which must free memory."""
    runner = DiffusersRunner()
    model = ModelConfig(model="demo", device=device, dtype="float32", tuning=Tuning(offload=offload))
    runner.load(model, EngineConfig(), lambda _: None)
    requests = [planned(index=n, seeds=(n,), prompt=f"a {name} circle", **STILL) for n, name in enumerate(COLOURS)]
    made: list[torch.Tensor] = []
    for _ in range(runs):
        medias = runner.execute_model(requests, lambda step, total: None, lambda: False)
        made += [media.data.cpu() for media in medias]
        memory = [device_bytes(device)]
        runner.sleep()
        memory.append(device_bytes(device))
        runner.wake_up()
        memory.append(device_bytes(device))
        if device != "cpu" and offload == "none":
            awake, asleep, woken = memory
            assert awake > 5_000_000, memory
            assert asleep < awake / 10, memory
            assert woken > 5_000_000, memory
    runner.close()
    return made


def switches() -> list[str]:
    """Return what is wrong with switches between two models of which the device has room for one alone."""
    runner, request = DiffusersRunner(), planned(prompt="a red circle", **STILL)
    models = [
        ModelConfig(model="demo", device="lag:0", dtype="float32", tuning=Tuning(flow_shift=shift))
        for shift in (1.0, 3.0, 1.0)
    ]
    made, pipelines = [], []
    for model in models:
        LAG.set_memory_limit(int(1.6 * device_bytes("lag:0")))  # 0, no limit, for the first one
        runner.load(model, EngineConfig(), lambda _: None)
        LAG.set_memory_limit(0)
        made.append(runner.execute_model([request], lambda step, total: None, lambda: False)[0].data.cpu())
        pipelines.append(runner._model.pipeline)
    runner.close()
    wrong = [] if torch.equal(made[0], made[2]) else ["a switch and back"]
    return wrong if pipelines[0] is pipelines[2] else [*wrong, "a model that is read again"]


def device_bytes(device: str) -> int:
    """Return the bytes of device memory in use once the device has finished all work; 0 for the CPU."""
    if device == "cpu":
        return 0
    LAG.synchronize(device)
    return int(LAG.memory_allocated(device))


def wrong_ways() -> list[str]:
    """Return the ways of running the model on the late device whose floats are not the CPU's."""
    expected = floats("cpu")
    ways = {
        "a batch of four, again after a sleep": (floats("lag:0", runs=2), expected * 2),
        "model offload": (floats("lag:0", "model", runs=2), expected * 2),
        "sequential offload on another device": (floats("lag:1", "sequential"), expected),
    }
    return [way for way, (made, right) in ways.items() if not all(map(torch.equal, made, right))] + switches()


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(wrong_ways()))  # noqa: T201
    sys.stdout.flush()
    os._exit(0)  # a stream's thread may still wait for a kernel
