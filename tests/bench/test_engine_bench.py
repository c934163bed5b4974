"""The engine bench and its table."""

from omni_cli.api import Session
from omni_cli.bench.engine_bench import EngineReport, engine_table, run_engine_bench


def test_each_path_is_measured_with_and_without_async_output() -> None:
    reports = run_engine_bench(30, Session, lambda line: None)
    assert [(report.path, report.async_output) for report in reports] == [
        ("engine", True),
        ("engine", False),
        ("files", True),
        ("files", False),
    ]
    for report in reports:
        assert report.requests == 30
        assert 0 <= report.p50_ms <= report.p95_ms
        assert report.ms_per_request > 0
        assert 0 < report.gap_ms <= report.longest_gap_ms


def test_the_table_shows_cost_gap_and_memory() -> None:
    report = EngineReport(
        path="files",
        async_output=True,
        requests=10000,
        ms_per_request=1.2345,
        p50_ms=1.1,
        p95_ms=2.25,
        gap_ms=0.333,
        longest_gap_ms=4.44,
        memory_mib=61.4,
        memory_grown_mib=0.25,
    )
    assert engine_table([report]).splitlines()[-1] == (
        "| files, async | 10000 | 1.23 | 1.10 | 2.25 | 0.33 ms, 4.4 ms | 61 MiB, +0.2 MiB |"
    )
