"""The JSON document, against numbers worked out by hand."""

import json

import msgspec
import pytest

from omni_cli.bench.report import Report


def test_document_has_the_documented_fields_and_the_right_numbers(report: Report) -> None:
    document = json.loads(msgspec.json.encode(report))
    assert document["schema_version"] == 1
    assert document["machine"] == {"processor": "Test", "cores": 2}
    assert document["settings"]["rounds"] == 3
    # Async: four forwards of 1.1 s and the last output of 0.25 s. The others: four times both.
    asynchronous, synchronous = (4 * 1.1 + 0.25) / 4, 1.1 + 0.25
    arm = document["arms"]["async"]
    assert arm["qps"] == pytest.approx(1 / asynchronous)
    assert arm["seconds_per_request"] == pytest.approx(
        {"median": asynchronous, "min": (4 + 0.25) / 4, "max": (4.8 + 0.25) / 4}
    )
    assert arm["rounds"] == pytest.approx([1.0625, 1.1625, 1.2625])
    assert document["ratios"].keys() == {"async/no-async", "async/plain", "no-async/plain"}
    assert document["ratios"]["async/plain"]["median"] == pytest.approx(synchronous / asynchronous)
    assert document["ratios"]["async/plain"]["ci95"] == pytest.approx([1.45 / 1.2625, 1.25 / 1.0625])
    assert document["ratios"]["no-async/plain"]["ci95"] == pytest.approx([1.0, 1.0])
    assert document["output_hidden_pct"] == pytest.approx(100)
    assert document["device_idle_pct"] == pytest.approx(0)
    assert document["longest_gap_ms"] == pytest.approx(0)
    assert document["output_share_of_plain_pct"] == pytest.approx(100 * 0.25 / 1.35)
    assert document["output_recovered"]["median"] == pytest.approx((1.35 - 1.1625) / 0.25)
    assert document["outputs_equal"] is True
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report
