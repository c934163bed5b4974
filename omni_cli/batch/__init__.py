"""The walk of a request: planned calls in, results out, files in place in between."""

from omni_cli.batch.bursts import bursts
from omni_cli.batch.desk import Again, Desk
from omni_cli.batch.previews import Previews
from omni_cli.batch.render import render
from omni_cli.batch.sizes import Sizes
from omni_cli.batch.stop import Stop
from omni_cli.batch.storage import Storage

__all__ = ["Again", "Desk", "Previews", "Sizes", "Stop", "Storage", "bursts", "render"]
