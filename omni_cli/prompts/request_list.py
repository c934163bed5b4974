"""Which list in an object that holds nothing else is a list of requests, in every format that has objects."""

from omni_cli.prompts.fields import field_of

LIST_NAMES = frozenset({"prompts", "texts", "captions", "requests", "data", "items", "rows", "samples"})
"""Names of a list of texts in an object that holds nothing else: `{"prompts": ["a cat", "a dog"]}`."""


def may_hold_requests(name: str) -> bool:
    """Return True if a list under `name` is not the value of a field, as that of `image` is."""
    return field_of(name) is None


def holds_requests(name: str, *, only_objects: bool) -> bool:
    """Return True if the list under `name` is one of requests: it holds objects only, or has a name of LIST_NAMES."""
    return may_hold_requests(name) and (only_objects or name.lower() in LIST_NAMES)
