"""What libraries warn of on this thread is collected; what concerns developers or other threads is not."""

import logging
import threading
import warnings
from collections.abc import Callable

import diffusers
import pytest
import transformers

from omni_cli.log import logger
from omni_cli.worker.loader.hub import quiet_libraries
from omni_cli.worker.pipeline.library_warnings import library_warnings

DIFFUSERS = logging.getLogger("diffusers.pipelines.flux")


@pytest.fixture(autouse=True)
def _quiet() -> None:
    with quiet_libraries():
        pass


def collect(act: Callable[[], object]) -> list[str]:
    texts: list[str] = []
    with library_warnings(texts.append):
        act()
    return texts


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda: DIFFUSERS.warning("scale %s is\nunused", 3.5), "diffusers: scale 3.5 is unused"),
        (lambda: DIFFUSERS.error("it broke"), "diffusers: it broke"),
        (lambda: logging.getLogger("transformers.models.t5").warning("long"), "transformers: long"),
        (lambda: logging.getLogger("diffusers_modules.local.mine").warning("\x1b[2J"), "diffusers_modules: \\x1b[2J"),
        (lambda: warnings.warn("dull", stacklevel=1), "UserWarning: dull"),
        (lambda: warnings.warn("overflow", RuntimeWarning, stacklevel=1), "RuntimeWarning: overflow"),
    ],
)
def test_a_warning_is_collected_every_time_and_not_printed(
    act: Callable[[], object], text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert [collect(act), collect(act)] == [[text], [text]]
    if "broke" not in text:
        assert capfd.readouterr().err == ""


@pytest.mark.parametrize("library", ["diffusers", "transformers"])
def test_a_warning_is_collected_once_where_its_logger_propagates(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(library), "propagate", True)
    texts = collect(lambda: [logging.getLogger(f"{library}.models").warning("long") for _ in range(2)])
    assert texts == [f"{library}: long"] * 2


def test_arguments_that_do_not_fit_the_format_are_left_out() -> None:
    texts: list[str] = []
    with library_warnings(texts.append):
        handlers = logging.getLogger("diffusers").handlers
        (handler,) = (handler for handler in handlers if type(handler).__name__ == "_CollectingHandler")
        handler.handle(logging.makeLogRecord({"name": "diffusers", "levelno": 30, "msg": "%d odd", "args": ("x",)}))
    assert texts == ["diffusers: %d odd"]


@pytest.mark.parametrize(
    "act",
    [
        lambda: DIFFUSERS.info("loading"),
        lambda: logger.warning("our own"),
        lambda: warnings.warn("old name", FutureWarning, stacklevel=1),
        lambda: warnings.warn("old name", DeprecationWarning, stacklevel=1),
    ],
)
def test_nothing_else_is_collected(act: Callable[[], object]) -> None:
    assert collect(act) == []


def test_other_threads_are_left_alone(recwarn: pytest.WarningsRecorder) -> None:
    def other() -> None:
        DIFFUSERS.warning("elsewhere")
        warnings.warn("elsewhere", stacklevel=1)

    def act() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    assert collect(act) == []
    assert [str(warning.message) for warning in recwarn] == ["elsewhere"]


def test_everything_is_as_before_after_the_block() -> None:
    handlers, show, filters = list(logging.getLogger().handlers), warnings.showwarning, list(warnings.filters)
    with pytest.raises(KeyError), library_warnings(lambda text: None):
        raise KeyError
    assert (logging.getLogger().handlers, warnings.showwarning, list(warnings.filters)) == (handlers, show, filters)
    assert diffusers.utils.logging.get_verbosity() == transformers.utils.logging.get_verbosity() == logging.WARNING
