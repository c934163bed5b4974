"""Which failures are the disk's, by what the operating system or a program says."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from omni_cli.disk import fault_named_in, lies_with_the_disk, reason
from tests.disks import small_disk


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EROFS", "EIO", "ESTALE", "ENOTCONN"])
def test_a_full_or_failing_disk_is_at_fault(name: str, tmp_path: Path) -> None:
    error = OSError(getattr(errno, name), os.strerror(getattr(errno, name)))
    assert lies_with_the_disk(error, tmp_path)
    assert reason(error).endswith(f"({name})")
    assert ("make room on" in reason(error, tmp_path)) == (name in ("ENOSPC", "EDQUOT"))
    named = fault_named_in(f"[out#0/mp4 @ 0x55] Error muxing a packet: {error.strerror}\nConversion failed!")
    assert named is not None
    assert named.errno == error.errno


@pytest.mark.parametrize("name", ["EFBIG", "EISDIR", "ENOENT", "ENAMETOOLONG", "ENOTDIR", "EACCES", "EPERM"])
def test_what_only_one_file_suffers_from_is_not(name: str, tmp_path: Path) -> None:
    assert not lies_with_the_disk(OSError(getattr(errno, name), "x"), tmp_path)
    assert fault_named_in(os.strerror(getattr(errno, name))) is None


def test_a_folder_that_may_not_be_written_any_more_is_at_fault_for_every_file(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        refused = PermissionError(errno.EACCES, "Permission denied")
        assert not lies_with_the_disk(refused, disk)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert lies_with_the_disk(refused, disk)


def test_an_error_without_a_number_is_told_in_its_own_words() -> None:
    assert reason(OSError("not a GIF")) == "not a GIF"
