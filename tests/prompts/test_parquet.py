"""Parquet: one request a row."""

import importlib.util

import pytest

from omni_cli.errors import UsageError
from omni_cli.prompts import read
from omni_cli.prompts.reader import ReadOptions
from omni_cli.request import Adapter, GenerationRequest

INSTALLED = importlib.util.find_spec("pyarrow") is not None


@pytest.mark.skipif(INSTALLED, reason="pyarrow is installed")
def test_without_pyarrow_the_message_says_what_to_install(tmp_path):
    path = tmp_path / "a.parquet"
    path.touch()
    with pytest.raises(UsageError, match="pip install pyarrow"):
        list(read(path))


def test_parquet_cannot_be_piped():
    with pytest.raises(UsageError, match="cannot be read from a pipe"):
        read("-", options=ReadOptions(format="parquet"))


@pytest.mark.skipif(not INSTALLED, reason="needs pyarrow")
def test_columns_are_fields_and_rows_are_requests(tmp_path):
    import pyarrow
    import pyarrow.parquet

    path = tmp_path / "a.parquet"
    rows = [
        {"prompt": "a", "seed": 1, "cfg_scale": 2.0, "lora": [{"path": "l", "weight": 0.5}]},
        {"prompt": None, "seed": -1, "cfg_scale": float("nan"), "lora": None},
    ]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    row, *problems = read(path)
    assert row.request == GenerationRequest(
        prompt="a", seed=1, guidance_scale=2.0, lora=[Adapter(path="l", weight=0.5)]
    )
    assert row.at("guidance_scale") == (1, 3)
    assert [(one.line, one.column, one.field) for one in problems] == [
        (2, 1, "prompt"),
        (2, 2, "seed"),
        (2, 3, "guidance_scale"),
    ]
    path.write_bytes(b"not parquet")
    with pytest.raises(UsageError, match="cannot read"):
        list(read(path))
