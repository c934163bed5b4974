"""Benchmarks of the overlap: several arms do the same work in turn, and statistics compare their times.

    arms (one process or session each, model loaded once) ── run_bench: warm-up, interleaved rounds ──> Measurement
    Measurement ── equality (pixels) ── report (statistics, figures of omni_cli.trace) ──> Report ──> table, JSON, chart

Two more benches need no model: `engine_bench` (cost of the engine per request) and `transport_bench` (from a decoded
tensor to bytes that an encoder reads).
"""
