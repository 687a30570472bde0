"""Count the machine instructions of one clone, with valgrind.

Times differ from run to run by more than most changes to the copier are worth. Counts do
not: `KERAS_BACKEND=jax python -m benchmarks.instructions`, before a change and after it.
"""

import argparse
import gc
import os
import re
import shutil
import subprocess
import sys
from typing import Literal

_BLOCKS = 30
"""Convolution, normalization and ReLU, so many times."""

_CONTROL = "callgrind_control"


def main() -> None:
    """Print the count for one backend, in total and per layer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", default="share", choices=("share", "copy"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        _clone_counted(options.weights)
        return
    if shutil.which(_CONTROL) is None:
        parser.exit(2, "Counting needs valgrind: install the package of that name.\n")
    layers, count = read_count(_run_inside(options.weights))
    print(f"weights={options.weights}: {count:,} instructions, {count // layers:,} per layer")


def _run_inside(weights: str) -> str:
    """Run this module under valgrind, and return what both printed."""
    tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"]
    module = [sys.executable, "-m", __spec__.name, "--inside", "--weights", weights]
    same = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run([*tool, *module], env=same, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def read_count(printed: str) -> tuple[int, int]:
    """Find the numbers of layers and of instructions in what was printed.

    Raises:
        RuntimeError: If they are not there.
    """
    layers = re.search(r"^layers (\d+)$", printed, re.MULTILINE)
    count = re.search(r"Collected : (\d+)$", printed, re.MULTILINE)
    if layers is None or count is None:
        message = f"nothing was counted; the last that was printed: {printed[-2000:]}"
        raise RuntimeError(message)
    return int(layers[1]), int(count[1])


def _clone_counted(weights: Literal["share", "copy"]) -> None:
    """Clone a model, the third time while valgrind counts."""
    import keras

    import ramet

    x = inputs = keras.Input((8, 8, 4))
    for _ in range(_BLOCKS):
        x = keras.layers.Conv2D(4, 3, padding="same")(x)
        x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
    model = keras.Model(inputs, x)
    for _ in range(2):
        ramet.clone(model, weights=weights)
    gc.collect()
    gc.disable()
    _count("on")
    twin = ramet.clone(model, weights=weights)
    _count("off")
    print(f"layers {len(twin.layers)}", flush=True)
    os._exit(0)  # Cleaning up Python and the backend takes long under valgrind.


def _count(switch: str) -> None:
    command = [_CONTROL, "-i", switch, str(os.getpid())]
    subprocess.run(command, capture_output=True, check=True)


if __name__ == "__main__":
    main()
