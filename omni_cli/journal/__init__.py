"""The journal of an output folder: `manifest.jsonl`, one row per request, and the lock that gives it a single writer.

Shards have a manifest and a lock each, see `manifests`.

    lock_folder ──> .omni-gen.lock (flock)
         │
    read_index ───> id → byte range of its last row ──> ManifestReader.compare  (row read back, files hashed)
         │                                         <── Journal.append          (one write, fsync)
    _compact <───── rows that a later row of the same id replaced, on open and on close

While a run appends, the last row of an id counts; after it has closed, there is exactly one row per id.
"""

from omni_cli.journal.journal import Journal, read_rows
from omni_cli.journal.manifest_reader import (
    ManifestReader,
    RequestStatus,
    Standing,
    count_lines,
    file_fault,
    is_intact,
    manifest_folder,
    read_manifest,
)
from omni_cli.journal.manifests import has_manifest, is_manifest_name, manifest_paths, manifests_version
from omni_cli.journal.row_index import MANIFEST_NAME
from omni_cli.storage.folder_lock import LOCK_NAME, check_folder

__all__ = [
    "LOCK_NAME",
    "MANIFEST_NAME",
    "Journal",
    "ManifestReader",
    "RequestStatus",
    "Standing",
    "check_folder",
    "count_lines",
    "file_fault",
    "has_manifest",
    "is_intact",
    "is_manifest_name",
    "manifest_folder",
    "manifest_paths",
    "manifests_version",
    "read_manifest",
    "read_rows",
]
