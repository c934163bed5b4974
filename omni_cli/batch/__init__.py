"""The walk of a request: planned calls in, rows out, files in place in between."""

from omni_cli.batch.batch_size import BatchSize
from omni_cli.batch.disk_retry import DiskRetry
from omni_cli.batch.micro_batches import micro_batches
from omni_cli.batch.output_writer import OutputWriter, Rerender
from omni_cli.batch.previews import Previews
from omni_cli.batch.row_builder import Origin
from omni_cli.batch.run_loop import render
from omni_cli.batch.stop import Stop

__all__ = [
    "BatchSize",
    "DiskRetry",
    "Origin",
    "OutputWriter",
    "Previews",
    "Rerender",
    "Stop",
    "micro_batches",
    "render",
]
