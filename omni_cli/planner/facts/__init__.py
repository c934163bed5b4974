"""Facts of a model without its libraries: from its files, the shipped cards, and a cache of what workers reported.

ModelConfig ── files: revision, index, card, signature ──┐
            ── device_facts: device, dtype ──────────────┴─> KnownFacts.look_up ──> Loaded, or None: ask a worker
worker ── Loaded ──> KnownFacts.learn ──> the user's cache, under the facts_key of the same files, settings and machine
"""

from omni_cli.planner.facts.known_facts import KnownFacts

__all__ = ["KnownFacts"]
