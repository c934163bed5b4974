"""The figures of a run (one implementation for view, journal, bench and report) and its Chrome trace."""

from omni_cli.trace.overlap import Overlap
from omni_cli.trace.timeline import Figures, Timeline

__all__ = ["Figures", "Overlap", "Timeline"]
