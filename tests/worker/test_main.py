"""The worker's entry: it leaves with its parent, whatever it is in."""

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
ENDLESS = "open({mark!r}, 'w').write('x')\nimport time\ntime.sleep(1000)\n"


@pytest.mark.parametrize("module", ["torch", "runner_of_mine"])
def test_a_worker_whose_parent_goes_leaves_in_the_middle_of_an_import(module: str, tmp_path: Path) -> None:
    """A parent that is killed at the start of a run would else leave processes that load for seconds, or for ever."""
    mark = tmp_path / "importing"
    os.mkfifo(mark)
    importing = os.open(mark, os.O_RDWR)
    (tmp_path / f"{module}.py").write_text(ENDLESS.format(mark=str(mark)))
    channel, theirs = Channel.pair()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    command = [sys.executable, "-P", "-m", "omni_cli.worker", str(theirs.fileno())]
    with theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment) as worker:
        try:
            engine = EngineConfig(runner="runner_of_mine:Runner")
            channel.send(m.encode(m.LoadModel(rpc_id=1, model=ModelConfig(device="cpu"), engine=engine)))
            assert wait([importing], PATIENCE_S), "the import never began"
            theirs.close()
            channel.close()
            assert worker.wait(PATIENCE_S) == 0
        finally:
            os.close(importing)
            if worker.poll() is None:
                worker.send_signal(signal.SIGKILL)
