"""How long `import ramet` takes where Keras is imported already."""

import json
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.results import IMPORT, IMPORT_CLONE, IMPORT_KERAS, Timing

_SCRIPT = """
import json, time
times = [time.perf_counter()]
import keras
times.append(time.perf_counter())
import ramet
times.append(time.perf_counter())
ramet.clone
times.append(time.perf_counter())
print(json.dumps(times))
"""


def measure_imports(environment: Mapping[str, str], rounds: int) -> dict[str, Timing]:
    """Time the imports in fresh processes; the environment selects the backend."""
    seconds: dict[str, list[float]] = {IMPORT_KERAS: [], IMPORT: [], IMPORT_CLONE: []}
    for _ in range(rounds):
        command = [sys.executable, "-c", _SCRIPT]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        start, keras_in, ramet_in, clone_in = json.loads(done.stdout.splitlines()[-1])
        seconds[IMPORT_KERAS].append(keras_in - start)
        seconds[IMPORT].append(ramet_in - keras_in)
        seconds[IMPORT_CLONE].append(clone_in - keras_in)
    return {statement: Timing(seconds=taken) for statement, taken in seconds.items()}
