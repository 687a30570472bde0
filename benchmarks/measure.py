"""Times side by side, and peaks of memory."""

import gc
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from benchmarks.results import Timing

ROUNDS = 5
PATIENCE = 3.0
"""A way that has taken this many seconds on a model gets no more rounds after its second."""
LIMIT = 8.0
"""A single run that takes this many seconds is not repeated."""


def alternate(
    ways: Mapping[str, Callable[[], Any]],
    *,
    rounds: int = ROUNDS,
    steady: Collection[str] = (),
    prepare: Callable[[], None] = lambda: None,
    check: Callable[[str, Any], None] = lambda _name, _result: None,
) -> dict[str, Timing]:
    """Time all ways in turn, in several rounds, so that a slow moment of the machine affects all.

    Args:
        ways: What to time, by name. What they return is dropped before the next one runs.
        rounds: How often, at most: slow ones have fewer rounds.
        steady: The ways that have all rounds, also if they are slow.
        prepare: Called before every run, outside of the time.
        check: Called with every name and the result of its first round, outside of the time.

    Returns:
        The times, or the error with which a way failed.
    """
    timings: dict[str, Timing] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            timing = timings.setdefault(name, {})
            seconds = timing.get("seconds", [])
            if "error" in timing or (name not in steady and _had_enough(seconds)):
                continue
            try:
                prepare()
                taken, result = timed(way)
                if not seconds:
                    check(name, result)
            except Exception as error:  # noqa: BLE001 that a way fails is a result, whatever it raises
                lines = str(error).splitlines() or [""]
                timings[name] = {"error": type(error).__name__, "message": lines[0]}
            else:
                timing["seconds"] = [*seconds, taken]
            result = None
    return timings


def timed(way: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that a way takes until its arrays are there, and what it returns."""
    gc.collect()
    wait()
    start = time.perf_counter()
    result = way()
    wait()
    return time.perf_counter() - start, result


def wait() -> None:
    """Wait until the backend has finished all work."""
    if "jax" in sys.modules:
        import jax

        jax.block_until_ready(jax.live_arrays())
    if "torch" in sys.modules:
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()


def peak_growth(way: Callable[[], Any]) -> int | None:
    """Return how far the peak of the memory in use exceeds what was in use before, in bytes.

    Linux only: elsewhere None. The peak is the kernel's own (`VmHWM`), so none is missed.
    """
    reset = Path("/proc/self/clear_refs")
    if not reset.exists():
        return None
    gc.collect()
    wait()
    reset.write_text("5", encoding="ascii")  # resets the peak to what is in use now
    before = _memory("VmRSS")
    kept = way()
    wait()
    growth = _memory("VmHWM") - before
    del kept
    return growth


def _had_enough(seconds: list[float]) -> bool:
    return any(taken > LIMIT for taken in seconds) or (len(seconds) > 1 and sum(seconds) > PATIENCE)


def _memory(field: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    match = re.search(rf"^{field}:\s+(\d+) kB$", status, flags=re.MULTILINE)
    if match is None:
        raise OSError(f"the system does not tell {field} in /proc/self/status")
    return int(match[1]) * 1024
