"""Writers: from bytes in shared memory to complete files on disk, frame by frame, nothing gathered.

    header + buffer ── samples ──> Frames | Sound | Latent ── write_output ──> an encoder ──> hidden file ──> fsync ──> rename
    a video in pieces, as they come: Frames ── ClipWriter ────────┘

`formats` answers questions before a run. Nothing here has state: any number of threads may write at once. Importing this
loads no numpy, PIL or av; encoding does.
"""

from omni_cli.writers.clip import ClipWriter, check_room
from omni_cli.writers.finalize import Frames, Latent, Sample, Sound, samples
from omni_cli.writers.metadata import Metadata
from omni_cli.writers.place import sweep
from omni_cli.writers.write import Written, write_output

__all__ = [
    "ClipWriter",
    "Frames",
    "Latent",
    "Metadata",
    "Sample",
    "Sound",
    "Written",
    "check_room",
    "samples",
    "sweep",
    "write_output",
]
