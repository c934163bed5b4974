"""The planner: from requests to plans with everything filled in, and every problem that can be known before running.

row ── models ── resolve ──> checks ──> Diagnostic, Diagnostic, ...
                    └──────> seeds, file names, fingerprint, shape ──> PlannedRequest ── finished_work ──> what remains
what remains ── grouped ── batches ──> calls
"""

from omni_cli.planner.batches import batches
from omni_cli.planner.call_order import grouped
from omni_cli.planner.finished_work import FinishedWork
from omni_cli.planner.models import ModelFacts, Models
from omni_cli.planner.plan import Planner

__all__ = ["FinishedWork", "ModelFacts", "Models", "Planner", "batches", "grouped"]
