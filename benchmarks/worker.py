"""Measure the backend in `KERAS_BACKEND`, and write the results as JSON.

`python -m benchmarks` runs this once per backend, and once more for the memory.
"""

import argparse
import datetime as dt
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import keras

import ramet
from benchmarks.machine import machine, versions
from benchmarks.measure import ROUNDS, alternate, peak_growth
from benchmarks.models import CASES, chain
from benchmarks.peers import MEASURES, check_weights, ways
from benchmarks.results import CHAIN, LONG, MLP, SHORT, Memory, Result, Subject, Timing


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="file to write")
    parser.add_argument("--models", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--memory", action="store_true", help="the memory, and nothing else")
    options = parser.parse_args()
    if options.memory:
        options.out.write_text(json.dumps(measure_memory()), encoding="utf-8")
        return
    result: Result = {
        "backend": keras.backend.backend(),
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "versions": versions(),
        "machine": machine(),
        "models": {},
    }
    for name in options.models:
        start = time.perf_counter()
        model = CASES[name].build()
        result["models"][name] = measure_model(name, model, options.rounds)
        if name == CHAIN:
            result["per_layer"] = measure_growth(model, options.rounds)
        del model
        print(f"{result['backend']}, {name}: {time.perf_counter() - start:.0f} s", flush=True)
    options.out.write_text(json.dumps(result), encoding="utf-8")


def measure_model(name: str, model: Any, rounds: int) -> Subject:
    """Time every way of copying one model."""
    left_out = CASES[name].not_run
    tried = {way: run for way, run in ways(model, name).items() if way not in left_out}
    timings = alternate(tried, rounds=rounds, steady=MEASURES, check=partial(check_weights, model))
    timings.update({way: Timing(not_run=reason) for way, reason in left_out.items()})
    return {
        "layers": len(model.layers),
        "weights": len(model.weights),
        "bytes": _bytes(model),
        "timings": timings,
    }


def measure_growth(long: Any, rounds: int) -> dict[str, Timing]:
    """Time the clones of a short and of a long chain."""
    short = chain(SHORT)
    lengths = {str(SHORT): lambda: ramet.clone(short), str(LONG): lambda: ramet.clone(long)}
    return alternate(lengths, rounds=rounds, steady=lengths)


def measure_memory() -> Memory | None:
    """Measure the peak memory of the first clone in a process."""
    model = CASES[MLP].build()
    growth = peak_growth(lambda: ramet.clone(model))
    return None if growth is None else {"bytes": _bytes(model), "growth": growth}


def _bytes(model: Any) -> int:
    return sum(keras.ops.convert_to_numpy(weight).nbytes for weight in model.weights)


if __name__ == "__main__":
    main()
