"""Distribute the frames of a pipeline call to its requests while they are being decoded."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from omni_cli.errors import RequestCancelled
from omni_cli.media import Encoding, Kind, Layout, Media, MediaSpec
from omni_cli.worker.pipeline.device_output_processor import DEVICE, DeviceOutputProcessor
from omni_cli.worker.pipeline.media_from_output import color_model, join_samples, sample_rate, samples_by_request
from omni_cli.worker.runner_protocol import IsCancelled, OnFrames
from omni_cli.worker.streaming_decode.decode_capture import DecodeCapture
from omni_cli.worker.streaming_decode.placeholder_tensor import PlaceholderTensor


class FrameStreamer:
    """Streams the videos of one loaded pipeline.

    A pipeline can stream if it has a VAE, hands its videos to a DeviceOutputProcessor and makes no sound, which a file
    needs from its start. A pipeline that reads the pixels of its video after decoding loses that ability at its first
    such call.
    """

    def __init__(self, pipeline: Any, output_type: str) -> None:
        """Prepare for `pipeline`, which is called with `output_type`; only "device" returns the frames of the VAE."""
        self._vae = getattr(pipeline, "vae", None)
        self._processor = vars(pipeline).get("video_processor")
        self._can_stream = (
            self._vae is not None
            and isinstance(self._processor, DeviceOutputProcessor)
            and output_type == DEVICE
            and sample_rate(pipeline) is None
        )
        self._on_frames: OnFrames | None = None
        self._is_cancelled: IsCancelled = lambda: False
        self._finished: list[int] = []

    def begin(self, on_frames: OnFrames | None, is_cancelled: IsCancelled) -> None:
        """Start a batch of pipeline calls and send their frames to `on_frames`; None: decode their videos whole."""
        self._on_frames, self._is_cancelled, self._finished = on_frames, is_cancelled, []

    @contextlib.contextmanager
    def capture(self, owners: Sequence[int]) -> Iterator[Callable[[Media], Media]]:
        """Stream the decodes of one pipeline call, whose sample i belongs to request `owners[i]`.

        Yields a function that takes the call's media and returns it, with `streamed` set if all its frames have left.
        Inside, the decode raises RequestCancelled once the batch is cancelled, and whatever `on_frames` raises.
        """
        on_frames, vae = self._on_frames, self._vae
        if on_frames is None or vae is None or not self._can_stream:
            yield lambda media: media
            return
        groups = [
            (owner, owners.index(owner), owners.count(owner), self._finished.count(owner))
            for owner in dict.fromkeys(owners)
        ]

        def emit(frames: torch.Tensor, first_frame: int) -> None:
            if self._is_cancelled():
                raise RequestCancelled(f"cancelled at frame {first_frame} of the decode")
            color = color_model(frames.shape[1])
            spec = MediaSpec(Kind.VIDEO, Layout.BCTHW, Encoding.FLOAT, self._processor.video_range, color)
            for owner, row, count, sample in groups:
                on_frames(owner, Media(spec, frames[row : row + count], offset=(sample, first_frame)))

        def finish(media: Media) -> Media:
            self._finished.extend(owners)
            data = capture.finish(media.data, wanted=media.audio is None)
            return replace(media, data=data, streamed=isinstance(data, PlaceholderTensor))

        capture = DecodeCapture(vae, emit)
        vae.decode = capture.decode
        try:
            yield finish
        finally:
            del vae.decode
            self._can_stream = not capture.discarded

    def split(self, medias: Sequence[Media], owners: Sequence[int], count: int) -> list[Media]:
        """Return one media for each of `count` requests; sample i of all `medias` belongs to request `owners[i]`.

        If some samples of a request have been streamed and others not, for example because their decode was repeated
        with less memory, the others are sent here, each as one piece. Raises what `on_frames` raises.
        """
        return [self._join(owner, samples) for owner, samples in enumerate(samples_by_request(medias, owners, count))]

    def _join(self, owner: int, samples: Sequence[tuple[Media, int]]) -> Media:
        streamed = next((media for media, _ in samples if media.streamed), None)
        if streamed is None or self._on_frames is None:
            return join_samples(samples)
        for number, (media, index) in enumerate(samples):
            if not media.streamed:
                self._on_frames(owner, Media(media.spec, media.data[index : index + 1], offset=(number, 0)))
        return replace(streamed, data=torch.zeros(()).expand(len(samples), *streamed.data.shape[1:]))
