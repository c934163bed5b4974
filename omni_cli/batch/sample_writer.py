"""From a request's frames to its files: their names, metadata, and retries while the disk is full."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from omni_cli.batch.disk_retry import DiskRetry
from omni_cli.batch.row_builder import OriginOf
from omni_cli.config import OutputConfig
from omni_cli.executor.protocol import Output
from omni_cli.request import ExecutedOn, PlannedRequest
from omni_cli.writers import (
    ClipWriter,
    Metadata,
    OutputTarget,
    WrittenFile,
    check_disk_accepts,
    split_samples,
    write_output,
)
from omni_cli.writers.formats import output_of

MARGIN_BYTES = 1 << 16
"""Free bytes that a rerender needs beyond the size of the lost file: an encoder buffers that much before it writes."""


class SampleWriter:
    """Writes samples into one output folder, from any number of threads."""

    def __init__(self, config: OutputConfig, origin_of: OriginOf, disk: DiskRetry) -> None:
        """`origin_of` supplies the embedded metadata; `disk` retries what the disk does not take."""
        self._config = config
        self._root = Path(config.output_dir)
        self._origin_of = origin_of
        self._disk = disk

    def write(self, planned: PlannedRequest, output: Output) -> Iterator[WrittenFile]:
        """Write every sample of a whole output, one after the other. Raises as `DiskRetry.store`, and WriteError."""
        for index, sample in zip(range(len(planned.files)), split_samples(output.header, output.buffer), strict=True):
            yield self._disk.store(partial(write_output, sample, self._target(planned, index, output.executed_on)))
            del sample

    def clip_writer(self, planned: PlannedRequest, index: int, executed_on: ExecutedOn) -> ClipWriter:
        """Return a writer for the frames of sample `index`, as they come from where they are computed."""
        return ClipWriter(self._target(planned, index, executed_on))

    def wait_for_room(self, planned: PlannedRequest, nbytes: int) -> None:
        """Return once the disk takes a file of more than `nbytes` beside those of `planned`.

        Raises as `DiskRetry.store`.
        """
        self._disk.store(lambda: check_disk_accepts(self._root, planned.files[0], nbytes + MARGIN_BYTES))

    def _target(self, planned: PlannedRequest, index: int, executed_on: ExecutedOn) -> OutputTarget:
        metadata = None
        if self._config.metadata:
            origin = self._origin_of(planned.request).on(executed_on)
            metadata = Metadata.of(planned, origin.model, index, origin.made)
        return OutputTarget(
            root=self._root,
            name=planned.files[index],
            format=planned.request.format or "",
            fps=planned.request.fps,
            options=output_of(planned.request, self._config),
            metadata=metadata,
        )
