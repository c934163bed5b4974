"""Views of a running run: a live terminal display, plain lines, JSON events, and results on stdout."""

from omni_cli.view.open import open_view

__all__ = ["open_view"]
