"""The journal of an output folder: `manifest.jsonl`, one row per request, and the lock that gives it one writer.

    held_folder ──> .omni-gen.lock (flock)
         │
    read_index ───> id → place of its last row ──> Ledger.is_done    (row read back, files hashed)
         │                                    <── Journal.append    (one write, fsync)
    compact <────── rows that a later row of the same id replaced, on open and on close

While a run appends, the last row of an id is the one that counts; when it has closed, there is exactly one per id.
"""

from omni_cli.journal.folder import LOCK_NAME, check_folder
from omni_cli.journal.journal import Journal, read_rows
from omni_cli.journal.ledger import Ledger, Standing, is_intact, read_ledger
from omni_cli.journal.rows import MANIFEST_NAME

__all__ = [
    "LOCK_NAME",
    "MANIFEST_NAME",
    "Journal",
    "Ledger",
    "Standing",
    "check_folder",
    "is_intact",
    "read_ledger",
    "read_rows",
]
