"""Checks of an output folder after its last run, whatever faults the runs met."""

import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

Rows = dict[str, dict[str, Any]]

LEVELS_APART = 2
"""Largest change of a grey level through H.264 in limited range."""


def requests(count: int) -> list[dict[str, Any]]:
    """Return requests that use every way to the disk: inline and through the ring, one file and several."""
    kinds: list[dict[str, Any]] = [
        {"num_frames": 9},
        {"num_frames": 1},
        {"num_frames": 1, "height": 640, "width": 640},
        {"num_frames": 1, "num_outputs": 2},
        {"num_frames": 9, "height": 256, "width": 256},
    ]
    base = {"prompt": "x", "extra": {"forward_seconds": 0.05}}
    return [{"id": f"r{n:04d}", "seed": n, **base, **kinds[n % len(kinds)]} for n in range(count)]


def temporary_files(folder: Path) -> set[Path]:
    """Return the temporary files of writers and journal in `folder`."""
    return {path for path in folder.rglob("*") if path.name.endswith(".omni-tmp")}


def check(folder: Path, wanted: list[dict[str, Any]]) -> Rows:
    """Assert that each request has one done row and the right files, and that nothing else is there.

    Return the rows by id.
    """
    lines = (folder / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    rows: Rows = {row["id"]: row for row in map(json.loads, lines)}
    counts = Counter(row["id"] for row in map(json.loads, lines))
    lost = {request["id"] for request in wanted} - counts.keys()
    assert not lost, f"lost: {sorted(lost)}"
    assert counts.total() == len(wanted), f"more than one row: {[id_ for id_, n in counts.items() if n > 1]}"
    assert {row["status"] for row in rows.values()} == {"done"}
    names: list[str] = []
    for request in wanted:
        names += _check_files(folder, request, rows[request["id"]])
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    assert found == sorted([*names, "manifest.jsonl"]), set(found) ^ {*names, "manifest.jsonl"}
    return rows


def _check_files(folder: Path, request: dict[str, Any], row: dict[str, Any]) -> list[str]:
    files = row["files"]
    assert len(files) == request.get("num_outputs", 1), row
    for number, file in enumerate(files):
        path = folder / file["path"]
        data = path.read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file["bytes"], file["sha256"]), path
        _check_pixels(path, request, (request["seed"] + number) % 256)
    return [file["path"] for file in files]


def _check_pixels(path: Path, request: dict[str, Any], level: int) -> None:
    """Assert that every frame has its size and the grey level of its seed."""
    size = (request.get("height", 64), request.get("width", 64), 3)
    if path.suffix == ".mp4":
        with av.open(os.fspath(path)) as container:
            frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
        assert frames.shape == (9, *size), path
        assert np.abs(frames.astype(int) - level).max() <= LEVELS_APART, path
    else:
        with Image.open(path) as image:
            pixels = np.asarray(image)
        assert pixels.shape == size, path
        assert (pixels == level).all(), path
