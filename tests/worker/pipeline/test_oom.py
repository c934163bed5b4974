"""Out of device memory: smaller calls, then measures that save memory, then an error that lists them."""

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from omni_cli.errors import ForwardError, OutOfDeviceMemory
from omni_cli.notes import STANDING
from omni_cli.platforms.streamless import CpuPlatform
from omni_cli.shape import Size
from omni_cli.worker.pipeline.invocation import Invocation, Sample
from omni_cli.worker.pipeline.oom import DRAINED_NOTE, OFFLOAD_NOTE, TILING_NOTE, OomLadder
from omni_cli.worker.runner import DiffusersRunner
from tests.factories import planned
from tests.worker.conftest import levels, load, run

FIELDS = {"batch_key": "k", "prompt": "x", "height": 32, "width": 64, "num_inference_steps": 2, "guidance_scale": 3.0}
SIZE = Size(8, 8)


class ScarceMemory:
    """Makes a pipeline run out of memory above `max_samples` samples, or in the VAE decoder."""

    def __init__(self, runner: DiffusersRunner) -> None:
        self.max_samples = 100
        self.decodes_untiled = True
        self.decodes_tiled = True
        self.samples = 0
        self.calls: list[int] = []
        self._pipeline = runner._model.pipeline
        self._pipeline.transformer.register_forward_pre_hook(self._denoise)
        self._prepare = self._pipeline.prepare_latents
        self._pipeline.prepare_latents = self._counted_latents
        self._decode = self._pipeline.vae.decode
        self._pipeline.vae.decode = self._checked_decode

    def _denoise(self, module: Any, args: Any) -> None:
        self.calls.append(self.samples)
        if self.samples > self.max_samples:
            raise torch.OutOfMemoryError("tried to allocate 9.00 GiB")

    def _checked_decode(self, *args: Any, **keywords: Any) -> Any:
        tiled = self._pipeline.vae.use_tiling
        if not (self.decodes_tiled if tiled else self.decodes_untiled):
            raise torch.OutOfMemoryError("tried to allocate 5.00 GiB")
        return self._decode(*args, **keywords)

    def _counted_latents(self, *args: Any, **keywords: Any) -> Any:
        latents = self._prepare(*args, **keywords)
        self.samples = len(latents[0])
        return latents


@pytest.fixture
def runner(tiny_model: Callable[[str], Path]) -> Iterator[DiffusersRunner]:
    """Return a runner that is not shared, because the measures of its ladder stay in force."""
    runner = load(str(tiny_model("flux")), dtype="float32")
    yield runner
    runner.close()


@pytest.fixture
def scarce(runner: DiffusersRunner) -> ScarceMemory:
    return ScarceMemory(runner)


def batch() -> list[Any]:
    """Return two requests with two and three samples."""
    return [planned(seeds=(1, 2), **FIELDS), planned(index=1, seeds=(3, 4, 5), **{**FIELDS, "prompt": "another one"})]


@pytest.mark.parametrize(
    ("max_samples", "calls"),
    [(3, [5, 3, 3, 2, 2]), (2, [5, 3, 2, 2, 1, 1, 2, 2]), (1, [5, 3, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1])],
)
def test_a_batch_is_halved_until_it_fits_and_gives_the_same_pictures(
    max_samples: int, calls: list[int], runner: DiffusersRunner, scarce: ScarceMemory
) -> None:
    whole = [levels(media) for media in run(runner, *batch())]
    scarce.max_samples, scarce.calls = max_samples, []
    medias = run(runner, *batch())
    assert scarce.calls == calls, "a call that fits does two steps, one that does not fails in its first"
    for media, expected in zip(medias, whole, strict=True):
        assert np.abs(levels(media).astype(int) - expected.astype(int)).max() <= 1
        assert media.notes[0] == "out of device memory: a call of 5 samples was halved"
    assert np.abs(whole[1][0].astype(int) - whole[1][1].astype(int)).mean() > 3, "each sample has its own seed"


def test_the_number_of_samples_that_fit_is_kept_per_size(runner: DiffusersRunner, scarce: ScarceMemory) -> None:
    scarce.max_samples = 2
    run(runner, *batch())
    scarce.calls = []
    note = f"{STANDING}out of device memory: calls of this size have at most 2 samples"
    assert [media.notes for media in run(runner, *batch())] == [(note,), (note,)]
    assert max(scarce.calls) == 2, "no call was larger than fits"
    scarce.max_samples, scarce.calls = 100, []
    assert run(runner, planned(seeds=(1, 2), **FIELDS))[0].notes == (), "the limit does not affect a call of two"
    scarce.calls = []
    run(runner, planned(seeds=(1, 2, 3), **{**FIELDS, "height": 16}))
    assert set(scarce.calls) == {3}


def test_steps_are_counted_over_the_smaller_calls(runner: DiffusersRunner, scarce: ScarceMemory) -> None:
    scarce.max_samples, steps = 3, list[tuple[int, int]]()
    runner.execute_model(batch(), lambda step, total: steps.append((step, total)), lambda: False)
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_one_sample_that_does_not_fit_switches_tiling_on_for_good(
    runner: DiffusersRunner, scarce: ScarceMemory
) -> None:
    request = planned(seeds=(1,), **FIELDS)
    whole = levels(run(runner, request)[0])
    scarce.decodes_untiled = False
    (media,) = run(runner, request)
    assert media.notes == (TILING_NOTE,)
    vae = runner._model.pipeline.vae
    assert (vae.use_tiling, vae.use_slicing) == (True, True)
    assert np.abs(levels(media).astype(int) - whole.astype(int)).max() <= 1
    assert run(runner, request)[0].notes == (STANDING + TILING_NOTE,), "later requests note the measure too"


def test_a_batch_is_halved_before_tiling_and_each_request_notes_what_affected_it(
    runner: DiffusersRunner, scarce: ScarceMemory
) -> None:
    scarce.decodes_untiled = False
    first, second = run(runner, *[planned(index=n, seeds=(n,), **FIELDS) for n in (1, 2)])
    halved = "out of device memory: a call of 2 samples was halved"
    assert (first.notes, second.notes) == ((halved, TILING_NOTE), (halved, STANDING + TILING_NOTE))


def test_a_request_that_never_fits_fails_with_advice_and_the_next_one_succeeds(
    runner: DiffusersRunner, scarce: ScarceMemory
) -> None:
    scarce.decodes_untiled = scarce.decodes_tiled = False
    words = (
        r"one sample; VAE tiling and slicing switched on, not enough: tried to allocate 5.00 GiB; try a smaller size"
    )
    for _ in range(2):
        with pytest.raises(OutOfDeviceMemory, match=words) as raised:
            run(runner, planned(seeds=(1,), **FIELDS))
        assert raised.value.kind == "out_of_memory"
        assert raised.value.__context__ is None, "a chained traceback would keep the tensors of the failed call"
    scarce.decodes_tiled = True
    assert run(runner, planned(seeds=(1,), **FIELDS))[0].data.shape[-2:] == (32, 64)


def test_outputs_that_hold_memory_are_sent_before_anything_is_done_for_good(
    runner: DiffusersRunner, scarce: ScarceMemory
) -> None:
    sent: list[bool] = []
    scarce.max_samples = 1

    def drain() -> bool:
        sent.append(True)
        scarce.max_samples = 2  # the memory of what was sent
        return len(sent) == 1

    runner.drain_by(drain)
    pair, trio = [planned(seeds=seeds, **FIELDS) for seeds in ((1, 2), (3, 4, 5))]
    assert run(runner, pair)[0].notes == (DRAINED_NOTE,)
    assert scarce.calls == [2, 2, 2], "the first step failed, then the same call did both"
    assert run(runner, pair)[0].notes == (), "no limit stays in force"
    halved = "out of device memory: a call of 3 samples was halved"
    assert run(runner, trio)[0].notes == (halved,), "nothing was left to be sent"


def test_a_batch_waits_for_earlier_outputs_once(runner: DiffusersRunner, scarce: ScarceMemory) -> None:
    runner.drain_by(lambda: True)  # as pieces of its own videos would have it
    scarce.max_samples = 1
    assert DRAINED_NOTE in run(runner, planned(seeds=(1, 2), **FIELDS))[0].notes
    assert scarce.calls == [2, 2, 1, 1, 1, 1]


def test_memory_for_an_output_is_freed_by_offload_once(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("accelerate")
    library.__spec__ = ModuleSpec("accelerate", None)
    monkeypatch.setitem(sys.modules, "accelerate", library)
    pipeline, device = Pipeline(Vae()), Device()
    ladder = OomLadder(pipeline, torch.device("cuda:1"), device)
    assert ladder.offload() == OFFLOAD_NOTE
    assert (pipeline.offloaded, ladder.offloads, device.emptied) == ([torch.device("cuda:1")], True, 1)
    assert ladder.offload() is None
    assert ladder.step_down(ONE, SIZE, "full") == ([ONE], TILING_NOTE)
    with pytest.raises(OutOfDeviceMemory):
        ladder.step_down(ONE, SIZE, "full")
    assert OomLadder(pipeline, torch.device("cuda:1"), device, offloaded=True).offload() is None


def test_other_errors_are_not_retried(runner: DiffusersRunner, scarce: ScarceMemory) -> None:
    def broken(module: Any, args: Any) -> None:
        scarce.calls.append(-1)
        raise RuntimeError("illegal memory access")

    runner._model.pipeline.transformer.register_forward_pre_hook(broken)
    with pytest.raises(ForwardError, match="RuntimeError: illegal memory access"):
        run(runner, *batch())
    assert scarce.calls.count(-1) == 1


class Vae:
    """A fake VAE with slicing and without tiling, which raises like diffusers' base class."""

    sliced = False

    def enable_tiling(self) -> None:
        raise NotImplementedError("Tiling doesn't seem to be implemented")

    def enable_slicing(self) -> None:
        self.sliced = True


class Pipeline:
    """A fake pipeline with a VAE and model offload."""

    def __init__(self, vae: Any = None) -> None:
        self.vae = vae
        self.offloaded: list[torch.device] = []

    def enable_model_cpu_offload(self, device: torch.device) -> None:
        self.offloaded.append(device)


class Device(CpuPlatform):
    """A platform that counts calls of `empty_cache`."""

    emptied = 0

    def empty_cache(self) -> None:
        self.emptied += 1


ONE = Invocation((Sample("x", None, 1),), (0,), {})


@pytest.mark.parametrize("accelerate", [True, False])
def test_model_offload_is_the_last_measure_on_an_accelerator_with_the_accelerate_package(
    accelerate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = ModuleType("accelerate")
    library.__spec__ = ModuleSpec("accelerate", None)
    monkeypatch.setitem(sys.modules, "accelerate", library if accelerate else None)
    vae, device = Vae(), Device()
    pipeline = Pipeline(vae)
    ladder = OomLadder(pipeline, torch.device("cuda:1"), device)
    assert ladder.step_down(ONE, SIZE, "full") == ([ONE], TILING_NOTE)
    assert vae.sliced
    assert not ladder.offloads
    if accelerate:
        assert ladder.step_down(ONE, SIZE, "full") == ([ONE], OFFLOAD_NOTE)
        assert pipeline.offloaded == [torch.device("cuda:1")]
        assert ladder.offloads
    with pytest.raises(OutOfDeviceMemory, match=r"not enough: full; try"):
        ladder.step_down(ONE, SIZE, "full")
    assert device.emptied == 2 + accelerate


def test_a_pipeline_without_a_vae_fails_at_once() -> None:
    with pytest.raises(OutOfDeviceMemory, match="with one sample: full"):
        OomLadder(Pipeline(), torch.device("cpu"), Device()).step_down(ONE, SIZE, "full")
