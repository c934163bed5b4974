"""Every error that a user can meet, and the exit code of each.

    OmniGenError                      3
    ├── UsageError                    2   flags, settings or files that cannot be used; nothing was rendered
    │   ├── PromptFileError           2   a prompt file has problems: carries all of them
    │   ├── DiagnosticError           2   a value, name or file cannot be used: carries one Diagnostic
    │   └── OutputFolderError         2   the output folder cannot be written, or another run has locked it
    ├── EngineError                   3   the engine cannot start or cannot go on
    │   ├── DependencyError           3   a required package is missing or too old
    │   ├── ModelLoadError            3   the model cannot be loaded
    │   │   └── HubUnreachable        3   the hub does not answer, and the model is not in the local cache
    │   ├── StorageUnavailable        3   no output can be stored any more
    │   ├── WorkerDied                3   a worker process exited unexpectedly
    │   └── ProtocolError             3   a message is not valid on its channel
    ├── RunCutShort                   3   some was rendered, and the other requests cannot be used any more
    ├── RequestError                  1   one request failed; the others go on
    │   ├── InputUnreadable           1   an input file of the request cannot be read
    │   ├── ForwardError              1   the pipeline raised
    │   ├── OutOfDeviceMemory         1   the device has too little memory, even for one sample
    │   ├── MediaContractError        1   the pipeline's output has a wrong shape, dtype or layout
    │   ├── NonFiniteOutput           1   the pipeline's output has NaN or infinity in it
    │   ├── ConstantOutput            1   the pipeline's output is one colour
    │   ├── NsfwContent               1   the pipeline's safety checker blackened the output
    │   ├── WriteError                1   a file cannot be encoded or stored
    │   │   └── StorageError          1   the disk failed, not the encoding: a retry may succeed
    │   ├── OutputTimeout             1   the output did not arrive in time
    │   ├── ModelUnavailable          1   the request's own model cannot be loaded
    │   └── RequestCancelled          1   the request was cancelled before it finished
    └── Interrupted                 130   the user stopped the run

A message names what is wrong, where, and what to do about it.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec.structs import replace


class OmniGenError(Exception):
    """Base of all errors that omni-gen raises on purpose."""

    exit_code: ClassVar[int] = 3


class Diagnostic(msgspec.Struct, frozen=True):
    """One thing that is wrong with the user's input: cause, remedy, field and place.

    `cause` continues the field's name ("is empty"). `remedy` says what to do or what is allowed, and may be empty.
    `offset` counts characters from the start of the row's text, until `Row.locate` turns it into a place.
    `line` and `column` count from 1, 0 means unknown; `column` counts characters. `rows` is the number of rows that
    have this problem; the place is that of the first, `also` are the lines of the others if they are few.
    """

    cause: str
    remedy: str = ""
    field: str = ""
    offset: int = 0
    source: str = ""
    line: int = 0
    column: int = 0
    rows: int = 1
    also: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return `file:line:column: field: cause; remedy (in 30 rows, first at line 1)`, without the empty parts."""
        place = f"{self.source}: " if self.source else ""
        if self.line:
            place = f"{self.source}:{self.line}:{self.column}: "
        subject = f"{self.field}: " if self.field else ""
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{place}{subject}{self.cause}{remedy}{self._other_rows()}"

    def _other_rows(self) -> str:
        if self.rows < 2:
            return ""
        if self.also:
            return f" (also at line{'s' if len(self.also) > 1 else ''} {', '.join(map(str, self.also))})"
        first = f"first at line {self.line}" if self.line else "this is the first"
        return f" (in {self.rows:,} rows, {first})"


class UsageError(OmniGenError):
    """Raised for flags, settings or files that cannot be used, before anything is rendered."""

    exit_code = 2


class PromptFileError(UsageError):
    """Raised once for a prompt file, with all its problems in file order, equal ones as one.

    `count` is the number of problems, where each row that has one of them counts.
    """

    def __init__(self, problems: Sequence[Diagnostic], count: int | None = None) -> None:
        """Make `problems` the message, one per line; there are as many as listed unless `count` is given."""
        self.problems = tuple(problems)
        self.count = len(self.problems) if count is None else count
        super().__init__("\n".join(map(str, self.problems)))


class DiagnosticError(UsageError):
    """Raised by a rule for a value, name or file that cannot be used; its caller adds the place to `diagnostic`."""

    def __init__(self, cause: str, remedy: str = "", field: str = "", offset: int = 0) -> None:
        """Make the diagnostic of these parts the message."""
        self.diagnostic = Diagnostic(cause, remedy, field, offset)
        super().__init__(str(self.diagnostic))

    def at(self, field: str, offset: int) -> Diagnostic:
        """Return the diagnostic with `field` and `offset`."""
        return replace(self.diagnostic, field=field, offset=offset)


class OutputFolderError(UsageError):
    """Raised if the output folder cannot be written, or if another run has locked it."""


class EngineError(OmniGenError):
    """Raised if the engine cannot start, or cannot go on after a worker failed for good."""


class DependencyError(EngineError):
    """Raised before anything is started if a required package is missing or too old; the message has the remedy."""


class ModelLoadError(EngineError):
    """Raised if the model cannot be loaded; the message has the loader's reason."""


class HubUnreachable(ModelLoadError):
    """Raised if the hub does not answer and the model is not in the local cache. `reason` names hub and cause."""

    remedy: ClassVar[str] = (
        "check the network, give --model a local folder, or download the model where there is a network; with"
        " HF_HUB_OFFLINE=1 only the cache is used, at once"
    )

    def __init__(self, repo: str, reason: str) -> None:
        """Make a message of `reason` and what to do."""
        self.reason = reason
        super().__init__(f"--model {repo!r}: {reason}, and the model is not in the local cache: {self.remedy}")


class StorageUnavailable(EngineError):
    """Raised if no output can be stored any more and retries cannot help; a later run renders what is missing."""


class WorkerDied(EngineError):
    """Raised if a worker process exits unexpectedly; the message has its exit code or signal."""


class ProtocolError(EngineError):
    """Raised for a message that is not valid on its channel, or that cannot be decoded."""


class RunCutShort(OmniGenError):
    """Raised if the requests that are left cannot be used, after others were rendered; the message counts them."""


class RequestError(OmniGenError):
    """Raised if one request fails; the others go on.

    `kind` becomes `error.kind` of the manifest's row. `attempts` counts how often the forward was started.
    """

    exit_code = 1
    kind: ClassVar[str] = "failed"

    def __init__(self, message: str = "", attempts: int = 1) -> None:
        """Keep `attempts`, which the executor counts."""
        super().__init__(message)
        self.attempts = attempts


class InputUnreadable(RequestError):
    """Raised if an input file cannot be read as its field needs it; the message names the field and the file."""

    kind = "input_unreadable"


class ForwardError(RequestError):
    """Raised if the pipeline raises during the forward pass."""

    kind = "forward_failed"


class OutOfDeviceMemory(RequestError):
    """Raised if the device runs out of memory even after every measure that saves some."""

    kind = "out_of_memory"


class MediaContractError(RequestError):
    """Raised if the pipeline's output breaks the media contract; the message names shape, dtype and rule."""

    kind = "media_contract"


class NonFiniteOutput(RequestError):
    """Raised if the pipeline's output has NaN or infinity in it; the message says how many and where."""

    kind = "non_finite_output"


class ConstantOutput(RequestError):
    """Raised if every pixel of an image or a clip has one colour and the user wants that to be a failure."""

    kind = "constant_output"


class NsfwContent(RequestError):
    """Raised if the pipeline's safety checker blackened a sample and the user wants that to be a failure."""

    kind = "nsfw_content"


class WriteError(RequestError):
    """Raised if a file cannot be encoded or stored."""

    kind = "write_failed"


class StorageError(WriteError):
    """Raised if the storage is at fault: full, read-only or failing. The same write may succeed later."""


class OutputTimeout(RequestError):
    """Raised if OUTPUT_READY does not arrive within the output timeout."""

    kind = "output_timeout"


class ModelUnavailable(RequestError):
    """Raised if the model that a request names cannot be loaded while other models of the run can."""

    kind = "model_load_failed"


class RequestCancelled(RequestError):
    """Raised if the request is cancelled before it finishes."""

    kind = "cancelled"


class Interrupted(OmniGenError):
    """Raised if the user stops the run; finished outputs are kept."""

    exit_code = 130
