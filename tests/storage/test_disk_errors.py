"""Which errors are the disk's, from the operating system or from the output of a program."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from omni_cli.storage.disk_errors import describe_error, find_disk_fault, is_disk_fault
from tests.disks import small_disk


@pytest.mark.parametrize("name", ["ENOSPC", "EDQUOT", "EROFS", "EIO", "ESTALE", "ENOTCONN"])
def test_full_or_failing_disk_is_a_disk_fault(name: str, tmp_path: Path) -> None:
    error = OSError(getattr(errno, name), os.strerror(getattr(errno, name)))
    assert is_disk_fault(error, tmp_path)
    assert describe_error(error).endswith(f"({name})")
    assert ("make room on" in describe_error(error, tmp_path)) == (name in ("ENOSPC", "EDQUOT"))
    fault = find_disk_fault(f"[out#0/mp4 @ 0x55] Error muxing a packet: {error.strerror}\nConversion failed!")
    assert fault is not None
    assert fault.errno == error.errno


@pytest.mark.parametrize("name", ["EFBIG", "EISDIR", "ENOENT", "ENAMETOOLONG", "ENOTDIR", "EACCES", "EPERM"])
def test_error_of_one_file_is_not_a_disk_fault(name: str, tmp_path: Path) -> None:
    assert not is_disk_fault(OSError(getattr(errno, name), "x"), tmp_path)
    assert find_disk_fault(os.strerror(getattr(errno, name))) is None


def test_refused_permission_is_a_disk_fault_where_the_folder_became_read_only(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        refused = PermissionError(errno.EACCES, "Permission denied")
        assert not is_disk_fault(refused, disk)
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        assert is_disk_fault(refused, disk)


def test_error_without_a_number_is_described_by_its_message() -> None:
    assert describe_error(OSError("not a GIF")) == "not a GIF"
