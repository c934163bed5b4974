"""Out of device memory: smaller calls, then less memory in use, then an error that says what was tried. Never another size."""

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
from omni_cli.platforms.cpu import CpuPlatform
from omni_cli.request import GenerationRequest
from omni_cli.transport.messages import STANDING
from omni_cli.worker.calls import Call, Sample
from omni_cli.worker.memory import OFFLOAD_NOTE, TILING_NOTE, Ladder
from omni_cli.worker.runner import DiffusersRunner
from tests.worker.conftest import levels, load, planned, run

FIELDS = {"prompt": "x", "height": 32, "width": 64, "num_inference_steps": 2, "guidance_scale": 3.0}
SIZE = GenerationRequest(height=8, width=8)


class Scarce:
    """A device on which the transformer takes `most` samples, and the decoder what it is said to."""

    def __init__(self, runner: DiffusersRunner) -> None:
        self.most = 100
        self.decodes_untiled = True
        self.decodes_tiled = True
        self.samples = 0
        self.seen: list[int] = []
        self._pipeline = runner._model.pipeline
        self._pipeline.transformer.register_forward_pre_hook(self._denoise)
        self._prepare = self._pipeline.prepare_latents
        self._pipeline.prepare_latents = self._counted_latents
        self._decode = self._pipeline.vae.decode
        self._pipeline.vae.decode = self._checked_decode

    def _denoise(self, module: Any, args: Any) -> None:
        self.seen.append(self.samples)
        if self.samples > self.most:
            raise torch.OutOfMemoryError("tried to allocate 9.00 GiB")

    def _checked_decode(self, *args: Any, **keywords: Any) -> Any:
        tiled = self._pipeline.vae.use_tiling
        if not (self.decodes_tiled if tiled else self.decodes_untiled):
            raise torch.OutOfMemoryError("tried to allocate 5.00 GiB")
        return self._decode(*args, **keywords)

    def _counted_latents(self, *args: Any, **keywords: Any) -> Any:
        made = self._prepare(*args, **keywords)
        self.samples = len(made[0])
        return made


@pytest.fixture
def runner(tiny_model: Callable[[str], Path]) -> Iterator[DiffusersRunner]:
    """A Flux of its own: what the ladder switches on stays on."""
    made = load(str(tiny_model("flux")), dtype="float32")
    yield made
    made.close()


@pytest.fixture
def scarce(runner: DiffusersRunner) -> Scarce:
    return Scarce(runner)


def batch() -> list[Any]:
    """Five samples: two of the first request, three of the second."""
    return [planned((1, 2), 0, **FIELDS), planned((3, 4, 5), 1, **{**FIELDS, "prompt": "another one"})]


@pytest.mark.parametrize(
    ("most", "calls"),
    [(3, [5, 3, 3, 2, 2]), (2, [5, 3, 2, 2, 1, 1, 2, 2]), (1, [5, 3, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1])],
)
def test_a_batch_is_halved_until_it_fits_and_makes_the_same_pictures(
    most: int, calls: list[int], runner: DiffusersRunner, scarce: Scarce
) -> None:
    whole = [levels(media) for media in run(runner, *batch())]
    scarce.most, scarce.seen = most, []
    medias = run(runner, *batch())
    assert scarce.seen == calls, "a call that fits makes two steps, one that does not makes none"
    for media, expected in zip(medias, whole, strict=True):
        assert np.abs(levels(media).astype(int) - expected.astype(int)).max() <= 1
        assert media.notes[0] == "out of device memory: a call of 5 samples was halved"
    assert np.abs(whole[1][0].astype(int) - whole[1][1].astype(int)).mean() > 3, "a seed of its own each"


def test_what_fits_is_remembered_for_that_size_and_no_other(runner: DiffusersRunner, scarce: Scarce) -> None:
    scarce.most = 2
    run(runner, *batch())
    scarce.seen = []
    told = f"{STANDING}out of device memory: calls of this size have at most 2 samples"
    assert [media.notes for media in run(runner, *batch())] == [(told,), (told,)]
    assert max(scarce.seen) == 2, "nothing was tried in vain"
    scarce.most, scarce.seen = 100, []
    assert run(runner, planned((1, 2), 0, **FIELDS))[0].notes == (), "it was a call of two in any case"
    scarce.seen = []
    run(runner, planned((1, 2, 3), 0, **{**FIELDS, "height": 16}))
    assert set(scarce.seen) == {3}


def test_steps_are_counted_over_the_calls_that_are_made(runner: DiffusersRunner, scarce: Scarce) -> None:
    scarce.most, seen = 3, list[tuple[int, int]]()
    runner.execute_model(batch(), lambda step, total: seen.append((step, total)), lambda: False)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_one_sample_that_does_not_fit_is_decoded_in_tiles_from_then_on(runner: DiffusersRunner, scarce: Scarce) -> None:
    request = planned((1,), 0, **FIELDS)
    whole = levels(run(runner, request)[0])
    scarce.decodes_untiled = False
    (media,) = run(runner, request)
    assert media.notes == (TILING_NOTE,)
    vae = runner._model.pipeline.vae
    assert (vae.use_tiling, vae.use_slicing) == (True, True)
    assert np.abs(levels(media).astype(int) - whole.astype(int)).max() <= 1
    assert run(runner, request)[0].notes == (STANDING + TILING_NOTE,), "the step was taken once, and every row says so"


def test_a_batch_is_halved_before_the_decoder_is_changed_and_a_note_goes_to_those_it_concerns(
    runner: DiffusersRunner, scarce: Scarce
) -> None:
    scarce.decodes_untiled = False
    first, second = run(runner, *[planned((n,), n, **FIELDS) for n in (1, 2)])
    halved = "out of device memory: a call of 2 samples was halved"
    assert (first.notes, second.notes) == ((halved, TILING_NOTE), (halved, STANDING + TILING_NOTE))


def test_when_nothing_helps_the_request_fails_with_advice_and_the_next_one_is_made(
    runner: DiffusersRunner, scarce: Scarce
) -> None:
    scarce.decodes_untiled = scarce.decodes_tiled = False
    words = (
        r"one sample; VAE tiling and slicing switched on, not enough: tried to allocate 5.00 GiB; try a smaller size"
    )
    for _ in range(2):
        with pytest.raises(OutOfDeviceMemory, match=words) as raised:
            run(runner, planned((1,), 0, **FIELDS))
        assert raised.value.kind == "out_of_memory"
        assert raised.value.__context__ is None, "the first traceback would keep the call's tensors"
    scarce.decodes_tiled = True
    assert run(runner, planned((1,), 0, **FIELDS))[0].data.shape[-2:] == (32, 64)


def test_any_other_error_is_no_reason_to_try_again(runner: DiffusersRunner, scarce: Scarce) -> None:
    def broken(module: Any, args: Any) -> None:
        scarce.seen.append(-1)
        raise RuntimeError("illegal memory access")

    runner._model.pipeline.transformer.register_forward_pre_hook(broken)
    with pytest.raises(ForwardError, match="RuntimeError: illegal memory access"):
        run(runner, *batch())
    assert scarce.seen.count(-1) == 1


class Vae:
    """One that can be sliced, and says that it cannot be tiled, as diffusers' base class does."""

    sliced = False

    def enable_tiling(self) -> None:
        raise NotImplementedError("Tiling doesn't seem to be implemented")

    def enable_slicing(self) -> None:
        self.sliced = True


class Pipeline:
    """The part of a pipeline that the ladder asks."""

    def __init__(self, vae: Any = None) -> None:
        self.vae = vae
        self.offloaded: list[torch.device] = []

    def enable_model_cpu_offload(self, device: torch.device) -> None:
        self.offloaded.append(device)


class Device(CpuPlatform):
    """Counts how often its cache was emptied."""

    emptied = 0

    def empty_cache(self) -> None:
        self.emptied += 1


ONE = Call((Sample("x", None, 1),), (0,), {})


@pytest.mark.parametrize("accelerate", [True, False])
def test_offload_is_the_last_rung_where_there_is_an_accelerator_and_the_library(
    accelerate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = ModuleType("accelerate")
    library.__spec__ = ModuleSpec("accelerate", None)
    monkeypatch.setitem(sys.modules, "accelerate", library if accelerate else None)
    vae, device = Vae(), Device()
    pipeline = Pipeline(vae)
    ladder = Ladder(pipeline, torch.device("cuda:1"), device)
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


def test_a_pipeline_without_a_decoder_to_change_fails_at_once() -> None:
    with pytest.raises(OutOfDeviceMemory, match="with one sample: full"):
        Ladder(Pipeline(), torch.device("cpu"), Device()).step_down(ONE, SIZE, "full")
