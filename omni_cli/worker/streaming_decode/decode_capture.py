"""Take the place of `vae.decode` during a pipeline call and pass on each piece of the video as the decoder makes it.

    pipeline ── decode(z) ──> DecodeCapture ──> the VAE's decode(z) ── decoder(...) ──> hook ── finish ──> emit(frames)
                                            └── joins what the hook left it: pieces of zero frames

The VAE's own loop runs unchanged, with its caches, but gets back pieces without frames from its decoder. The pixels are
those of a whole decode, and at most two pieces are in memory.
"""

from collections.abc import Callable
from typing import Any

import torch

from omni_cli.worker.streaming_decode.decoders import DecodePlan, plan_decode
from omni_cli.worker.streaming_decode.placeholder_tensor import PlaceholderTensor

Emit = Callable[[torch.Tensor, int], None]
"""Takes the next frames [B, C, t, H, W] of a video and the number of the first of them. May block, and may raise."""


class DecodeCapture:
    """The decodes of one pipeline call.

    The last piece is held back, because the pipeline may still cut frames off its end. `discarded` is True once the
    pipeline has read pixels of the video, or the video cannot be used as a stream: the frames that were emitted are
    then void, and the video is decoded whole.
    """

    def __init__(self, vae: Any, emit: Emit) -> None:
        self._vae = vae
        self._decode = vae.decode
        self._emit = emit
        self._inputs: list[tuple[torch.Tensor, tuple[Any, ...], dict[str, Any]]] = []
        self._whole_decodes: dict[int, torch.Tensor] = {}
        self._pending: torch.Tensor | None = None
        self._emitted = 0
        self._truncated = False
        self.discarded = False

    def decode(self, z: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """Replace `vae.decode`: return its answer for `z` [B, C, T, H, W], with a placeholder for a streamed video."""
        plan = None if self.discarded else plan_decode(self._vae, z)
        if plan is None or self._truncated:
            return self._decode(z, *args, **kwargs)
        self._flush()
        start = self._emitted
        try:
            answer, like = self._decode_in_pieces(plan, z, args, kwargs)
        except BaseException:
            self._clear_caches()
            raise
        number = len(self._inputs)
        self._inputs.append((z, args, kwargs))
        frames = self._emitted - start + (0 if self._pending is None else self._pending.shape[2])
        video = PlaceholderTensor.create(self, number, number, (*like.shape[:2], frames, *like.shape[3:]), like)
        return (video,) if isinstance(answer, tuple) else type(answer)(sample=video)

    def finish(self, video: torch.Tensor, wanted: bool = True) -> torch.Tensor:
        """Emit the last frames and return `video`, the pipeline's output [B, C, T, H, W].

        `video` must be the placeholder of all decodes, and a stream `wanted`. Otherwise discard what was emitted and
        return the real video.
        """
        if not isinstance(video, PlaceholderTensor):
            self.discarded = self.discarded or bool(self._inputs)
            return video
        if wanted and not self.discarded and (video.first, video.last) == (0, len(self._inputs) - 1):
            self._flush()
            return video
        return self.whole(video)

    def whole(self, placeholder: PlaceholderTensor) -> torch.Tensor:
        """Decode the video of `placeholder` once more and return it, [B, C, T, H, W]; discard what was emitted."""
        self.discarded = True
        self._pending = None
        numbers = range(placeholder.first, placeholder.last + 1)
        with torch.inference_mode():
            for number in numbers:
                if number not in self._whole_decodes:
                    z, args, kwargs = self._inputs[number]
                    answer = self._decode(z, *args, **kwargs)
                    self._whole_decodes[number] = answer[0] if isinstance(answer, tuple) else answer.sample
            pieces = [self._whole_decodes[number] for number in numbers]
            video = torch.cat(pieces, dim=2) if len(pieces) > 1 else pieces[0]
            return video[:, :, : placeholder.shape[2]]

    def truncate(self, frames: int) -> bool:
        """Shorten the whole video to `frames` frames; False if more than that have been emitted."""
        if self._pending is None or not self._emitted <= frames <= self._emitted + self._pending.shape[2]:
            return False
        self._pending = self._pending[:, :, : frames - self._emitted]
        self._truncated = True
        return True

    def _decode_in_pieces(
        self, plan: DecodePlan, z: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, torch.Tensor]:
        """Return the VAE's answer, which has no frames, and a tensor with the dtype and size of its pieces."""
        calls, like = 0, z

        def hook(module: Any, inputs: Any, output: Any) -> Any:
            nonlocal calls, like
            decoded = output[0] if isinstance(output, tuple) else output
            frames = plan.finish(decoded)
            calls += 1
            self._flush()
            if frames.shape[2]:
                self._pending = frames
                if calls < plan.calls:
                    self._flush()
            like = frames[:, :, :0].clone()  # without the storage of the frames
            empty = decoded.new_empty((*decoded.shape[:2], 0, *decoded.shape[3:]))
            return (empty, *output[1:]) if isinstance(output, tuple) else empty

        handle = self._vae.decoder.register_forward_hook(hook)
        try:
            return self._decode(z, *args, **kwargs), like
        finally:
            handle.remove()

    def _flush(self) -> None:
        """Emit the pending frames: they are final."""
        frames, self._pending = self._pending, None
        if frames is not None and frames.shape[2]:
            self._emit(frames, self._emitted)
            self._emitted += frames.shape[2]

    def _clear_caches(self) -> None:
        """Clear the convolution caches after an interrupted decode: the next one must not see its frames."""
        self._pending = None
        for name in ("clear_cache", "_clear_conv_cache"):
            clear = getattr(self._vae, name, None)
            if clear is not None:
                clear()
