"""The planner: from located requests to plans with nothing left open, and every problem that can be known before running.

Located ── resolve ──> checks · inputs · places · claims ──> Problem
               └─────> seeds ──> files ──> fingerprint ──> batch_key ──> PlannedRequest ── batches ──> pipeline calls
"""

from omni_cli.planner.batches import batches
from omni_cli.planner.plan import Planner

__all__ = ["Planner", "batches"]
