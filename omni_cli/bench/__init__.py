"""Proof of the overlap: arms that do the same work in turn, and what their times say.

    arms (a process or engine each, model loaded once) ── conduct: warm-up, calibrate, interleaved rounds ──> Measured
    Measured ── compare (pixels) ── summarize (statistics, figures of omni_cli.trace) ──> Report ──> table · JSON · chart

Beside it, two benches without a model: `engine` (what the engine costs per request) and `transport` (from a decoded tensor to
bytes that an encoder can read).
"""
