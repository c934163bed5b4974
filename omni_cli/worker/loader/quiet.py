"""Libraries keep to themselves while they load: no progress bars, no advice about future versions."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import diffusers
import transformers
from huggingface_hub.utils.tqdm import disable_progress_bars


@contextmanager
def quiet() -> Iterator[None]:
    """Silence bars for good (this is a worker process, its terminal is not ours) and future warnings for the block."""
    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    disable_progress_bars()
    diffusers.utils.logging.set_verbosity_error()
    transformers.utils.logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
