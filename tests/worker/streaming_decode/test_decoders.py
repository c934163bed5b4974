"""For every supported VAE, the frames that leave early are those of the whole decode, bit for bit."""

from collections.abc import Callable
from typing import Any

import diffusers as d
import pytest
import torch

from omni_cli.worker.streaming_decode.decode_capture import DecodeCapture
from omni_cli.worker.streaming_decode.decoders import plan_decode
from omni_cli.worker.streaming_decode.placeholder_tensor import PlaceholderTensor


def wan() -> Any:
    return d.AutoencoderKLWan(
        base_dim=8, z_dim=4, dim_mult=[1, 1], num_res_blocks=1, temperal_downsample=[True], latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    )  # fmt: skip


def wan_with_patches() -> Any:
    return d.AutoencoderKLWan(
        base_dim=8, decoder_base_dim=8, z_dim=4, dim_mult=[1, 1], num_res_blocks=1, temperal_downsample=[True],
        is_residual=True, in_channels=12, out_channels=12, patch_size=2, latents_mean=[0.0] * 4, latents_std=[1.0] * 4,
    )  # fmt: skip


def cogvideox() -> Any:
    return d.AutoencoderKLCogVideoX(
        down_block_types=("CogVideoXDownBlock3D",) * 2, up_block_types=("CogVideoXUpBlock3D",) * 2,
        block_out_channels=(8, 8), latent_channels=4, layers_per_block=1, norm_num_groups=2,
        temporal_compression_ratio=2,
    )  # fmt: skip


def mochi(framewise: bool = True) -> Any:
    vae = d.AutoencoderKLMochi(
        encoder_block_out_channels=(32, 32, 32, 32), decoder_block_out_channels=(32, 32, 32, 32), latent_channels=4,
        layers_per_block=(1, 1, 1, 1, 1),
    )  # fmt: skip
    vae.use_framewise_decoding = framewise
    return vae


def magvit() -> Any:
    return d.AutoencoderKLMagvit(
        latent_channels=4, block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=2,
        down_block_types=["SpatialDownBlock3D", *["SpatialTemporalDownBlock3D"] * 3],
        up_block_types=["SpatialUpBlock3D", *["SpatialTemporalUpBlock3D"] * 3],
    )  # fmt: skip


def hunyuan() -> Any:
    vae = d.AutoencoderKLHunyuanVideo(
        latent_channels=4, block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=2,
    )  # fmt: skip
    vae.tile_sample_min_num_frames, vae.tile_sample_stride_num_frames = 8, 4
    return vae


def ltx(framewise: bool = True) -> Any:
    vae = d.AutoencoderKLLTXVideo(
        latent_channels=4, block_out_channels=(8, 8, 8, 8), decoder_block_out_channels=(8, 8, 8, 8),
        layers_per_block=(1, 1, 1, 1, 1), decoder_layers_per_block=(1, 1, 1, 1, 1),
    )  # fmt: skip
    vae.use_framewise_decoding = framewise
    return vae


def ltx2() -> Any:
    vae = d.AutoencoderKLLTX2Video(
        latent_channels=4, block_out_channels=(8, 8, 8, 8), decoder_block_out_channels=(8, 16, 32),
        layers_per_block=(1, 1, 1, 1, 1), decoder_layers_per_block=(1, 1, 1, 1),
    )  # fmt: skip
    vae.use_framewise_decoding, vae.temporal_compression_ratio = True, 8
    return vae


CASES: dict[str, tuple[Callable[[], Any], int, list[int]]] = {
    "wan": (wan, 4, [1, 2, 2, 2]),
    "wan with patches": (wan_with_patches, 3, [1, 2, 2]),
    "cogvideox": (cogvideox, 5, [5, 4]),
    "mochi": (mochi, 4, [7, 12]),
    "magvit": (magvit, 3, [1, 4, 4]),
    "hunyuan": (hunyuan, 5, [5, 4, 4, 4]),
    "ltx": (ltx, 4, [9, 8, 8]),
    "ltx2": (ltx2, 4, [9, 8, 8]),
}
"""Name: (VAE, latent frames of the clip, frames per piece)."""


def build(make: Callable[[], Any]) -> Any:
    """Return a VAE of `make` with the same random weights each time."""
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return make().eval()


def latents(frames: int, batch: int = 2) -> torch.Tensor:
    """Return float32 [batch, 4, frames, 4, 4], the same each time."""
    return torch.randn(batch, 4, frames, 4, 4, generator=torch.Generator().manual_seed(3))


def decode_captured(vae: Any, z: torch.Tensor) -> tuple[Any, list[tuple[int, torch.Tensor]]]:
    """Return the video that the pipeline gets, and the pieces, each with the number of its first frame."""
    pieces: list[tuple[int, torch.Tensor]] = []
    capture = DecodeCapture(vae, lambda frames, first: pieces.append((first, frames.clone())))
    with torch.inference_mode():
        video = capture.finish(capture.decode(z).sample)
    return video, pieces


@pytest.mark.parametrize("name", CASES)
def test_the_pieces_joined_in_order_equal_the_whole_decode(name: str) -> None:
    make, frames, lengths = CASES[name]
    vae = build(make)
    with torch.inference_mode():
        whole = vae.decode(latents(frames), return_dict=False)[0]
    video, pieces = decode_captured(vae, latents(frames))
    assert [piece.shape[2] for _, piece in pieces] == lengths
    assert [first for first, _ in pieces] == [sum(lengths[:number]) for number in range(len(lengths))]
    assert torch.equal(torch.cat([piece for _, piece in pieces], dim=2), whole)
    assert isinstance(video, PlaceholderTensor)
    assert (video.shape, video.dtype) == (whole.shape, whole.dtype)
    with torch._C.DisableTorchFunctionSubclass():
        assert video.untyped_storage().nbytes() == 4, "one float"
    with torch.inference_mode():
        assert torch.equal(vae.decode(latents(frames)).sample, whole), "the VAE decodes as before"


@pytest.mark.parametrize("name", CASES)
def test_an_interrupted_decode_leaves_nothing_in_the_caches(name: str) -> None:
    make, frames, _ = CASES[name]
    vae = build(make)
    with torch.inference_mode():
        whole = vae.decode(latents(frames)).sample
        with pytest.raises(ZeroDivisionError):
            DecodeCapture(vae, lambda frames, first: 1 / 0).decode(latents(frames))  # type: ignore[arg-type]
        assert torch.equal(vae.decode(latents(frames)).sample, whole)


WHOLE: dict[str, Callable[[], Any]] = {
    "mochi without framewise decoding": lambda: mochi(framewise=False),
    "ltx without framewise decoding": lambda: ltx(framewise=False),
    "an image VAE": lambda: d.AutoencoderKL(),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_vae_that_decodes_in_one_call_has_no_plan(name: str) -> None:
    assert plan_decode(WHOLE[name](), latents(3)) is None


def test_spatial_tiling_batch_slicing_and_single_frames_have_no_plan() -> None:
    vae = wan()
    assert plan_decode(vae, latents(1)) is None
    assert plan_decode(vae, latents(2)) is not None
    vae.enable_slicing()
    assert plan_decode(vae, latents(2)) is None
    assert plan_decode(vae, latents(2, batch=1)) is not None
    vae.enable_tiling()
    assert plan_decode(vae, latents(2, batch=1)) is None
