"""The planner: from located requests to plans with nothing left open, and every problem that can be known before running.

Models ── which model a row means, and its card
Located ── resolve ──> checks · inputs · places · claims ──> Problem
               └─────> seeds ──> files ──> fingerprint ──> batch_key ──> PlannedRequest ── grouped ── batches ──> calls
"""

from omni_cli.planner.batches import batches
from omni_cli.planner.models import Facts, Models
from omni_cli.planner.order import grouped
from omni_cli.planner.plan import Planner

__all__ = ["Facts", "Models", "Planner", "batches", "grouped"]
