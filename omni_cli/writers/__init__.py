"""Writers: from bytes in shared memory to complete files on disk, frame by frame, nothing gathered.

    header + buffer ── finalize ──> Frames ── write_output ──> image | video encoder ──> tmp ──> fsync ──> rename

The only entry is `write.write_output`; `formats` answers questions before a run. Nothing here has state: any number of
threads may write at once.
"""
