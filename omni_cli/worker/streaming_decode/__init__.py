"""Streaming decode: frames of a video leave the worker while its VAE is still decoding.

    pipeline ── vae.decode(z) ──> DecodeCapture ── the VAE's own loop ──> decoder hook ──> final frames
             <── PlaceholderTensor ───┘                                                        │
    pipeline ── its output ──> FrameStreamer ── Media(streamed=True) ──> runner                │
                                                                           │                   │
                  CallOutputs <── outgoing(request, media) ────────────────┘                   │
                      │       <── on_frames(request, frames), for each request of the call ────┘
                      └──> Outbox ──> OutputPiece, OutputPiece, ..., OutputReady

    call_outputs        worker side: which calls may stream, and the messages of a streamed output
    frame_streamer      runner side: distributes the frames of a pipeline call to its requests
    decode_capture      replaces `vae.decode` for the duration of a pipeline call
    decoders            per VAE class: how a result of its decoder becomes final frames
    placeholder_tensor  what the pipeline holds in place of the video; decodes it again if the pipeline reads its pixels

Outside this package, only `Runner.stream_to` and `Media.streamed` know of it.
"""

from omni_cli.worker.streaming_decode.call_outputs import CallOutputs
from omni_cli.worker.streaming_decode.frame_streamer import FrameStreamer

__all__ = ["CallOutputs", "FrameStreamer"]
