"""Every error a user can meet, and the exit code of each.

    OmniGenError                      3
    ├── UsageError                    2   flags or configuration that cannot be used
    │   ├── PromptFileError           2   one or more located problems in a prompt file
    │   └── OutputFolderError         2   the output folder cannot be written, or another run holds it
    ├── EngineError                   3   the engine could not start, or died for good
    │   ├── ModelLoadError            3   the model could not be loaded
    │   ├── StorageLost               3   nothing can be stored any more, and waiting did not help
    │   ├── WorkerDied                3   a worker process ended without being asked to
    │   └── ProtocolError             3   a message that does not belong on this channel
    ├── RequestError                  1   one request failed; the others go on
    │   ├── InputUnreadable           1   an input file of the request cannot be read
    │   ├── ForwardError              1   the pipeline raised
    │   ├── OutOfDeviceMemory         1   the device's memory is too small, whatever was tried
    │   ├── MediaContractError        1   the pipeline's output breaks the media contract
    │   ├── NonFiniteOutput           1   the pipeline's output holds NaN or infinity
    │   ├── ConstantOutput            1   the pipeline's output is one colour
    │   ├── WriteError                1   encoding or placing the file failed
    │   │   └── StorageFault          1   the disk is at fault, not the request: it may pass
    │   ├── OutputTimeout             1   no output within the output wait
    │   ├── ModelUnavailable          1   the request's own model could not be loaded; those of other models go on
    │   └── RequestCancelled          1   cancelled before it finished
    └── Interrupted                 130   stopped by the user

A message names what is wrong, where, and what to do about it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class OmniGenError(Exception):
    """Base of all errors that omni-gen raises on purpose."""

    exit_code: ClassVar[int] = 3


class UsageError(OmniGenError):
    """Flags or configuration that cannot be used; nothing was run."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One located fault of a prompt file.

    `line` and `column` count from 1; 0 means that the place is not known. `column` counts characters.
    """

    source: str
    line: int
    column: int
    field: str
    message: str
    allowed: str = ""

    def __str__(self) -> str:
        """`file:line:column: field: what is wrong; what is allowed`."""
        place = f"{self.source}:{self.line}:{self.column}"
        subject = f"{self.field}: " if self.field else ""
        advice = f"; {self.allowed}" if self.allowed else ""
        return f"{place}: {subject}{self.message}{advice}"


class PromptFileError(UsageError):
    """All problems of a prompt file at once, in file order."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep `problems` and make them the message, one per line."""
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class OutputFolderError(UsageError):
    """The output folder cannot be written, or another run holds it."""


class EngineError(OmniGenError):
    """The engine could not start, or died for good."""


class ModelLoadError(EngineError):
    """The model could not be loaded; the message carries the loader's reason."""


class StorageLost(EngineError):
    """Nothing can be stored any more, and waiting did not help or is of no use; what was not stored is rendered again."""


class WorkerDied(EngineError):
    """A worker process ended without being asked to; names exit code or signal."""


class ProtocolError(EngineError):
    """A message that does not belong on this channel, or cannot be decoded."""


class RequestError(OmniGenError):
    """One request failed; the others go on. `kind` is the row's `error.kind`, `attempts` how often its forward was begun."""

    exit_code = 1
    kind: ClassVar[str] = "failed"

    def __init__(self, message: str = "", attempts: int = 1) -> None:
        """`attempts` is what the executor counted; whoever raises it in a forward knows of one."""
        super().__init__(message)
        self.attempts = attempts


class InputUnreadable(RequestError):
    """An input file of the request cannot be read as what it is meant to be; names the field and the file."""

    kind = "input_unreadable"


class ForwardError(RequestError):
    """The pipeline raised during the forward pass."""

    kind = "forward_failed"


class OutOfDeviceMemory(RequestError):
    """The device's memory is too small for the request, with everything tried that saves some."""

    kind = "out_of_memory"


class MediaContractError(RequestError):
    """The pipeline's output breaks the media contract; names shape, dtype and rule."""

    kind = "media_contract"


class NonFiniteOutput(RequestError):
    """The pipeline's output holds NaN or infinity; names how many and where."""

    kind = "non_finite_output"


class ConstantOutput(RequestError):
    """Every pixel of an image or a clip is one colour, and that was asked to be a failure."""

    kind = "constant_output"


class WriteError(RequestError):
    """Encoding a file or placing it failed."""

    kind = "write_failed"


class StorageFault(WriteError):
    """The disk is at fault and not the request: full, read-only, out of order. It may pass, so the same may be tried again."""


class OutputTimeout(RequestError):
    """OUTPUT_READY did not arrive within the output wait."""

    kind = "output_timeout"


class ModelUnavailable(RequestError):
    """The model that the request names could not be loaded, after another one was."""

    kind = "model_load_failed"


class RequestCancelled(RequestError):
    """The request was cancelled before it finished."""

    kind = "cancelled"


class Interrupted(OmniGenError):
    """The user asked to stop; what was finished is kept."""

    exit_code = 130
