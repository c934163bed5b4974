"""The error tree at the top of errors.py is the code's, and a diagnostic reads `place: field: cause; remedy`."""

import inspect
import re

import pytest

from omni_cli import errors
from omni_cli.errors import Diagnostic, DiagnosticError, OmniGenError, PromptFileError, RequestError

CLASSES = [member for _, member in inspect.getmembers(errors, inspect.isclass) if issubclass(member, OmniGenError)]


def test_the_tree_in_the_docstring_has_every_error_with_its_parent_and_exit_code():
    drawn, parents = {}, ["Exception"]
    for bars, name, code in re.findall(r"^    ((?:[│├└─ ]{4})*)(\w+) +(\d+)", errors.__doc__, re.MULTILINE):
        depth = len(bars) // 4 + 1
        drawn[name] = (parents[depth - 1], int(code))
        parents[depth:] = [name]
    assert drawn == {one.__name__: (one.__base__.__name__, one.exit_code) for one in CLASSES}


def test_every_kind_of_failed_request_has_a_name_that_tells_it_apart():
    kinds = [one.kind for one in CLASSES if issubclass(one, RequestError) and one is not errors.StorageError]
    assert len(set(kinds)) == len(kinds)
    assert errors.StorageError.kind == errors.WriteError.kind == "write_failed"


@pytest.mark.parametrize(
    ("diagnostic", "shown"),
    [
        (Diagnostic("is empty"), "is empty"),
        (Diagnostic("is empty", "give a path", "mask"), "mask: is empty; give a path"),
        (Diagnostic("is empty", "", "mask", source="a.jsonl", line=2, column=9), "a.jsonl:2:9: mask: is empty"),
    ],
)
def test_a_diagnostic_is_one_line_of_the_parts_that_it_has(diagnostic, shown):
    assert str(diagnostic) == shown


def test_the_message_of_an_error_is_that_of_its_diagnostics():
    error = DiagnosticError("is empty", "give a path", "mask", 7)
    assert (str(error), error.diagnostic.offset) == ("mask: is empty; give a path", 7)
    assert str(PromptFileError([error.diagnostic, Diagnostic("is empty")])) == "mask: is empty; give a path\nis empty"
