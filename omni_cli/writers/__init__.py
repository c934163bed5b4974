"""Writers: from bytes in shared memory to complete files on disk, frame by frame.

    header + buffer ── split_samples ──> Frames | Sound | Latent ── write_output ──> encoder ──> hidden file ──> rename
    a video in pieces, as they come: Frames ── ClipWriter ──────────────────────────────┘

`formats` answers questions before a run. The functions have no state: any number of threads may write at once.
Importing the room loads no numpy, PIL or av; encoding does.
"""

from omni_cli.storage.atomic import sweep
from omni_cli.writers.clip_writer import ClipWriter, check_disk_accepts
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.output_target import OutputTarget
from omni_cli.writers.samples import Frames, Latent, Sample, Sound, split_samples
from omni_cli.writers.write import WrittenFile, write_output

__all__ = [
    "ClipWriter",
    "Frames",
    "Latent",
    "Metadata",
    "OutputTarget",
    "Sample",
    "Sound",
    "WrittenFile",
    "check_disk_accepts",
    "split_samples",
    "sweep",
    "write_output",
]
