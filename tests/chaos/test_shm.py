"""Shared memory is anonymous: a container's small /dev/shm, or none at all, changes nothing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.folder import check, requests
from tests.chaos.places import namespace, with_mounts
from tests.chaos.run import NULL, PATIENCE_S

LIMITED = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && df -k /dev/shm | grep -q "1024 "'
ABSENT = """mount -t tmpfs tmpfs "$1" && for node in null zero full random urandom tty; do
touch "$1/$node" && mount --bind /dev/$node "$1/$node" || exit 9; done && mount --move "$1" /dev && [ ! -e /dev/shm ]"""


@pytest.mark.skipif(sys.platform != "linux", reason="mounts of a process's own are Linux's")
@pytest.mark.parametrize("script", [LIMITED, ABSENT], ids=["limited", "absent"])
def test_every_output_arrives(script: str, tmp_path: Path) -> None:
    if not namespace():
        pytest.skip("mounts of one's own are refused here")
    (tmp_path / "dev").mkdir()
    wanted = requests(5)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps(row) + "\n" for row in wanted))
    run = [
        sys.executable,
        "-m",
        "omni_cli",
        "run",
        str(prompts),
        "-o",
        str(tmp_path / "out"),
        "--runner",
        NULL,
        "--progress",
        "none",
    ]
    command = [*with_mounts(script, tmp_path / "dev"), *run]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode == 9:
        pytest.skip(f"a /dev of one's own is refused here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert any(row["height"] * row["width"] * 3 > 1 << 20 for row in wanted if "height" in row), "one through the ring"
    check(tmp_path / "out", wanted)
