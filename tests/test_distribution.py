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

from distributed import CHECKS, DEVICES

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src"

pytestmark = pytest.mark.skipif(
    os.environ["KERAS_BACKEND"] != "jax", reason="only JAX distributes Keras models"
)


@pytest.fixture(scope="module")
def found():
    """What went wrong in each check."""
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
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", CHECKS)
def test_distribution(name, found):
    assert name not in found, found[name]
