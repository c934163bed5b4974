"""Nested values are walked and mapped leaf by leaf."""

from collections import OrderedDict

from omni_cli.worker.pipeline.nested import leaves, map_leaves


def test_leaves_are_mapped_in_containers_of_the_same_types() -> None:
    value = {"a": [1, (2, None)], "b": {"c": 3}}
    assert list(leaves(value)) == [1, 2, None, 3]
    assert map_leaves(str, value) == {"a": ["1", ("2", "None")], "b": {"c": "3"}}


def test_subclasses_of_containers_are_leaves() -> None:
    output = OrderedDict(images=[1])
    assert list(leaves([output])) == [output]
    assert map_leaves(lambda leaf: leaf, [output])[0] is output
