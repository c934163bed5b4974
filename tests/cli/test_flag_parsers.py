"""Parsers of flag values."""

import pytest

from omni_cli.cli.flag_parsers import parse_adapters, parse_batch_size, parse_byte_count, parse_shard
from omni_cli.errors import UsageError
from omni_cli.request import Adapter


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("1K", 1024), ("512M", 512 << 20), ("1.5GiB", 3 << 29), ("2gb", 2 << 30)]
)
def test_byte_counts(text: str, size: int) -> None:
    assert parse_byte_count(text, "--x") == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1Q", "G", "1e9"])
def test_wrong_byte_counts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="such as 512M"):
        parse_byte_count(text, "--x")


def test_shards_and_batch_sizes() -> None:
    assert (parse_shard("2/4"), parse_shard("0/4"), parse_shard("4/4")) == ((2, 4), (0, 4), (4, 4))
    assert parse_batch_size("auto") == 0
    assert parse_batch_size("8") == 8
    for wrong in ("0/0", "5/4", "1", "a/b", "auto/0", "1/٤", "-1/4"):
        with pytest.raises(UsageError, match="I/N"):
            parse_shard(wrong)
    for wrong in ("0", "-1", "many", "9999", "٣"):
        with pytest.raises(UsageError, match="or auto"):
            parse_batch_size(wrong)


@pytest.mark.parametrize(
    ("text", "adapter"),
    [
        ("a.safetensors", Adapter(path="a.safetensors")),
        ("a.safetensors:0.8", Adapter(path="a.safetensors", weight=0.8)),
        ("owner/name:-1", Adapter(path="owner/name", weight=-1.0)),
    ],
)
def test_a_lora_has_a_weight_behind_a_colon(text: str, adapter: Adapter) -> None:
    assert parse_adapters([text]) == [adapter]


@pytest.mark.parametrize("text", ["a.safetensors:x", ":1", "a:nan", "a:"])
def test_a_wrong_lora_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--lora"):
        parse_adapters([text])


def test_without_a_lora_there_are_no_adapters() -> None:
    assert parse_adapters(None) is None
    assert parse_adapters([]) is None
