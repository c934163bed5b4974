"""The memory of the parent does not grow with the number of requests."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from omni_cli.api import OmniGen
from omni_cli.config import EngineConfig, OutputConfig, RunConfig

def resident() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

config = RunConfig(engine=EngineConfig(runner="omni_cli.worker.null:NullRunner"))
requests = ({"prompt": "x", "height": 768, "width": 768} for _ in range(240))
with OmniGen(output_dir=sys.argv[1], config=config) as gen:
    sizes = [resident() for _ in gen.generate(requests)]
print(sizes[39], sizes[-1], "torch" in sys.modules)
"""


def test_memory_of_the_parent_is_flat_over_240_requests(tmp_path: Path) -> None:
    """Render 240 images of 1.7 MB each: outputs that leak would add hundreds of megabytes."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=300, check=True
    )
    early, late, torch_is_here = result.stdout.split()
    assert int(late) - int(early) < 10_000  # KiB
    assert int(late) < 200_000
    assert torch_is_here == "False"
