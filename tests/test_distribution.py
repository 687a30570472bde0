"""Models on several devices: every variable of a copy lies where the source's lies.

The checks are in distributed.py, which runs in a process of its own: how many devices
there are is fixed when JAX starts.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distributed import DEVICES

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"

pytestmark = pytest.mark.skipif(
    os.environ["KERAS_BACKEND"] != "jax", reason="only JAX distributes Keras models"
)


def test_distribution():
    # One test for all checks: the process takes longer to start than to check, and every worker
    # of xdist would start its own.
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")]),
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": flags,
    }
    done = subprocess.run(  # noqa: S603 the interpreter that runs the tests
        [sys.executable, str(HERE / "distributed.py")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wrong = json.loads(done.stdout.splitlines()[-1])
    assert not wrong, "\n".join(f"{name}: {fault}" for name, fault in wrong.items())
