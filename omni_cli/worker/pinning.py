"""Registers a slot's pages with the driver for as long as they are mapped."""

import mmap

import torch

from omni_cli.platforms.base import Platform


def pin(platform: Platform, memory: mmap.mmap) -> None:
    """Register the whole mapping, once."""
    platform.register_host(_address(memory), len(memory))


def unpin(platform: Platform, memory: mmap.mmap) -> None:
    """Undo `pin`, before the mapping goes."""
    platform.unregister_host(_address(memory))


def _address(memory: mmap.mmap) -> int:
    return torch.frombuffer(memory, dtype=torch.uint8).data_ptr()
