"""Takes the place of `vae.decode` during a pipeline's call, and hands on each piece of the video as the decoder makes it.

    pipeline ── decode(z) ──> Catch ──> the VAE's own decode(z) ── decoder(...) ──> hook ── finish ──> emit(frames, first frame)
                                            └── joins what the hook left it: pieces without a frame

The VAE's own loop runs as it is, caches and all; only the results of its decoder never come back to it. So the pixels are
those of the whole decode, and no more than one piece of it is in memory.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from omni_cli.worker.chunks.decoders import Plan, plan_decode
from omni_cli.worker.chunks.standin import StandIn
from omni_cli.worker.collect import sample_rate_of
from omni_cli.worker.seam import Seam

Emit = Callable[[torch.Tensor, int], None]
"""Takes the next frames [B, C, t, H, W] of the video and the number of the first of them. May wait, and may raise."""


class Tap:
    """The decodes of one loaded pipeline. `seam` is the one that its videos go through."""

    def __init__(self, vae: Any, seam: Seam) -> None:
        self._vae = vae
        self.seam = seam
        self.handed_on = True

    @classmethod
    def on(cls, pipeline: Any) -> "Tap | None":
        """The tap of `pipeline`; None if it has no VAE, or no seam for videos, or makes sound, which a file needs from its start."""
        parts = vars(pipeline)
        vae, seam = getattr(pipeline, "vae", None), parts.get("video_processor")
        silent = sample_rate_of(pipeline) is None
        return cls(vae, seam) if vae is not None and isinstance(seam, Seam) and silent else None

    @contextlib.contextmanager
    def catching(self, emit: Emit) -> Iterator["Catch"]:
        """Hand the frames of every decode in this block to `emit`.

        A pipeline that looks into its video is remembered: from then on its decodes are left alone (`handed_on` is False).
        """
        catch = Catch(self._vae, emit)
        self._vae.decode = catch.decode
        try:
            yield catch
        finally:
            del self._vae.decode
            self.handed_on = self.handed_on and not catch.void


class Catch:
    """The decodes of one pipeline call (see `standin.Decodes`). The last piece is kept until what follows makes it final."""

    def __init__(self, vae: Any, emit: Emit) -> None:
        self._vae = vae
        self._decode = vae.decode
        self._emit = emit
        self._latents: list[tuple[torch.Tensor, tuple[Any, ...], dict[str, Any]]] = []
        self._wholes: dict[int, torch.Tensor] = {}
        self._held: torch.Tensor | None = None
        self._sent = 0
        self._cut = 0
        self.void = False

    def decode(self, z: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """In place of `vae.decode`: the same kind of answer, with a stand-in for the video where its frames have left."""
        plan = None if self.void else plan_decode(self._vae, z)
        if plan is None or self._cut:
            return self._decode(z, *args, **kwargs)
        self._pass_on()
        start = self._sent
        try:
            answer, last = self._decode_in_pieces(plan, z, args, kwargs)
        except BaseException:
            self._clear_caches()
            raise
        self._latents.append((z, args, kwargs))
        frames = self._sent - start + (0 if self._held is None else self._held.shape[2])
        number = len(self._latents) - 1
        shape = (*last.shape[:2], frames, *last.shape[3:])
        return _answer(answer, StandIn.of(self, number, number, shape, last))

    def settle(self, video: torch.Tensor, streams: bool = True) -> torch.Tensor:
        """`video`, a pipeline's output: the stand-in of all that was caught, whose last frames leave now; or one to be looked at.

        In the second case, and where it is of no use as a stream (what belongs to it is not there yet), all that has left is void.
        """
        if (
            streams
            and isinstance(video, StandIn)
            and not self.void
            and (video.first, video.last) == (0, len(self._latents) - 1)
        ):
            self._pass_on()
            return video
        self.void = self.void or bool(self._latents)
        return self.whole(video) if isinstance(video, StandIn) else video

    def whole(self, standin: StandIn) -> torch.Tensor:
        """The video that `standin` stands for, decoded once more."""
        self.void = True
        self._held = None
        with torch.inference_mode():
            return self._whole(standin)

    def _whole(self, standin: StandIn) -> torch.Tensor:
        for number in range(standin.first, standin.last + 1):
            if number not in self._wholes:
                z, args, kwargs = self._latents[number]
                self._wholes[number] = _video(self._decode(z, *args, **kwargs))
        pieces = [self._wholes[number] for number in range(standin.first, standin.last + 1)]
        video = torch.cat(pieces, dim=2) if len(pieces) > 1 else pieces[0]
        return video[:, :, : standin.shape[2]]

    def cut(self, frames: int) -> bool:
        """Leave `frames` frames in all; False if more have left."""
        if self._held is None or not self._sent <= frames <= self._sent + self._held.shape[2]:
            return False
        self._held = self._held[:, :, : frames - self._sent]
        self._cut = frames
        return True

    def _decode_in_pieces(
        self, plan: Plan, z: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, torch.Tensor]:
        """The VAE's answer, which has no frames, and a tensor like its pieces."""
        calls, like = 0, z

        def hook(module: Any, inputs: Any, output: Any) -> Any:
            nonlocal calls, like
            made = output[0] if isinstance(output, tuple) else output
            frames = plan.finish(made)
            calls += 1
            self._pass_on()
            if frames.shape[2]:
                self._held = frames
                if calls < plan.calls:
                    self._pass_on()
            like = frames[:, :, :0].clone()  # without the storage of the frames
            empty = made.new_empty((*made.shape[:2], 0, *made.shape[3:]))
            return (empty, *output[1:]) if isinstance(output, tuple) else empty

        handle = self._vae.decoder.register_forward_hook(hook)
        try:
            return self._decode(z, *args, **kwargs), like
        finally:
            handle.remove()

    def _pass_on(self) -> None:
        """What was kept is final now."""
        frames, self._held = self._held, None
        if frames is not None and frames.shape[2]:
            self._emit(frames, self._sent)
            self._sent += frames.shape[2]

    def _clear_caches(self) -> None:
        """A decode was broken off: what its convolutions remember must not meet the next one's frames."""
        self._held = None
        for name in ("clear_cache", "_clear_conv_cache"):
            clear = getattr(self._vae, name, None)
            if clear is not None:
                clear()


def _video(answer: Any) -> torch.Tensor:
    video: torch.Tensor = answer[0] if isinstance(answer, tuple) else answer.sample
    return video


def _answer(answer: Any, video: torch.Tensor) -> Any:
    """`answer` of a VAE with `video` in it."""
    return (video,) if isinstance(answer, tuple) else type(answer)(sample=video)
