"""The worker program exits with its parent, whatever it is doing."""

import os
import signal
import subprocess
import sys
from multiprocessing.connection import wait
from pathlib import Path

import pytest

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.transport import messages as m
from omni_cli.transport.channel import Channel

PATIENCE_S = 60.0
ENDLESS_MODULE = "open({mark!r}, 'w').write('x')\nimport time\ntime.sleep(1000)\n"


@pytest.mark.parametrize("module", ["torch", "slow_runner"])
def test_a_worker_whose_parent_is_gone_exits_in_the_middle_of_an_import(module: str, tmp_path: Path) -> None:
    """A parent that is killed while its workers start must not leave them behind."""
    mark = tmp_path / "importing"
    os.mkfifo(mark)
    importing = os.open(mark, os.O_RDWR)
    (tmp_path / f"{module}.py").write_text(ENDLESS_MODULE.format(mark=str(mark)))
    channel, worker_end = Channel.pair()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    command = [sys.executable, "-P", "-m", "omni_cli.worker", str(worker_end.fileno())]
    with worker_end, subprocess.Popen(command, pass_fds=[worker_end.fileno()], env=environment) as worker:
        try:
            engine = EngineConfig(runner="slow_runner:Runner")
            channel.send(m.encode(m.LoadModel(rpc_id=1, model=ModelConfig(device="cpu"), engine=engine)))
            assert wait([importing], PATIENCE_S), "the import never began"
            worker_end.close()
            channel.close()
            assert worker.wait(PATIENCE_S) == 0
        finally:
            os.close(importing)
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
