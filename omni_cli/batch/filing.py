"""From a request's frames to its files: which names, with what inside, and whether the disk takes them."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from omni_cli.batch.storage import Storage
from omni_cli.config import OutputConfig
from omni_cli.executor.protocol import Output
from omni_cli.request import GenerationRequest, Made, ModelInfo, PlannedRequest
from omni_cli.writers import ClipWriter, Metadata, Sample, Written, check_room, samples, write_output

ROOM_BYTES = 1 << 16
"""What a disk must take on top before frames that it did not take are rendered again: an encoder keeps that much back."""


class Filing:
    """Writes into one output folder, from any number of threads."""

    def __init__(
        self,
        config: OutputConfig,
        model_of: Callable[[GenerationRequest], ModelInfo],
        made_of: Callable[[GenerationRequest], Made | None],
        storage: Storage,
    ) -> None:
        """`storage` has the last word on what becomes of a file that the disk does not take."""
        self._config = config
        self._root = Path(config.output_dir)
        self._model_of, self._made_of = model_of, made_of
        self._storage = storage

    def make_sure_of_room(self, planned: PlannedRequest, nbytes: int) -> None:
        """Return once the disk takes a file of more than `nbytes` where those of `planned` go. Raises as `Storage.store`."""
        self._storage.store(lambda: check_room(self._root, planned.files[0], nbytes + ROOM_BYTES))

    def written(self, planned: PlannedRequest, output: Output) -> Iterator[Written]:
        """Every sample of a whole output, one file after the other."""
        for index, (sample, name) in enumerate(zip(samples(output.header, output.buffer), planned.files, strict=True)):
            yield self._storage.store(partial(self._write_sample, planned, index, sample, name))
            del sample

    def _write_sample(self, planned: PlannedRequest, index: int, sample: Sample, name: str) -> Written:
        """One sample's file, with its own metadata."""
        return write_output(
            sample,
            self._root / name,
            name=name,
            format=planned.request.format or "",
            fps=planned.request.fps,
            options=self._config,
            metadata=self._metadata(planned, index),
        )

    def clip_writer(self, planned: PlannedRequest, index: int) -> ClipWriter:
        """What writes one sample's frames as they come."""
        name = planned.files[index]
        return ClipWriter(
            self._root / name,
            name=name,
            format=planned.request.format or "",
            fps=planned.request.fps,
            options=self._config,
            metadata=self._metadata(planned, index),
        )

    def _metadata(self, planned: PlannedRequest, index: int) -> Metadata | None:
        if not self._config.metadata:
            return None
        request = planned.request
        return Metadata.of(planned, self._model_of(request), index, self._made_of(request))
