"""What a person, a log or a program sees of a run while it goes: live view, plain lines, JSON events, paths on stdout."""

from omni_cli.view.open import open_view
from omni_cli.view.text import printable

__all__ = ["open_view", "printable"]
