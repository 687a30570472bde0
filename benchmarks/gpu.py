"""Times on one GPU, on JAX or PyTorch: whether a clone costs more than the copy of its bytes.

KERAS_BACKEND=torch python -m benchmarks.gpu --json gpu-torch.json
"""

import argparse
import datetime as dt
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

import ramet
from benchmarks.machine import versions
from benchmarks.measure import alternate, wait
from benchmarks.models import mlp
from benchmarks.peers import clone_and_set_weights
from benchmarks.report import NONE, number, table
from benchmarks.results import CLONE, CLONE_MODEL, SET_WEIGHTS, best, ratio

ARRAYS = "copies of the arrays"
BATCH = "in one call"
CONTIGUOUS = "one copy of as many bytes"
PEERS = (CLONE_MODEL, SET_WEIGHTS, ARRAYS, BATCH, CONTIGUOUS)


def main() -> None:
    """Measure and check two models; exit with 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="file to write")
    parser.add_argument("--units", type=int, default=4096, help="of each layer of the MLP")
    parser.add_argument("--layers", type=int, default=64, help="of the MLP")
    options = parser.parse_args()
    models: dict[str, Callable[[], Any]] = {
        f"MLP, {options.layers} × {options.units:,} units": lambda: mlp(  # noqa: RUF001 the sign for times
            options.layers, options.units
        ),
        "ResNet50": lambda: keras.applications.ResNet50(weights=None),
    }
    result: dict[str, Any] = {
        "backend": keras.backend.backend(),
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "device": device(),
        "versions": versions(),
        "models": {name: measure(build()) for name, build in models.items()},
    }
    options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(markdown(result))
    failed = [
        problem for model in result["models"].values() for problem in model["checks"].values()
    ]
    sys.exit(any(failed))


def measure(model: Any) -> dict[str, Any]:
    """Time the ways to copy a model, and check its clone."""
    checks = check(model)
    size = sum(value.nbytes for value in _values(model))
    block = keras.ops.ones(size // 4, dtype="float32")
    ways: dict[str, Callable[[], Any]] = {
        CLONE: lambda: ramet.clone(model),
        CLONE_MODEL: lambda: keras.models.clone_model(model),
        SET_WEIGHTS: lambda: clone_and_set_weights(model),
        ARRAYS: lambda: [_copy(value) for value in _values(model)],
        CONTIGUOUS: lambda: _copy(block),
    }
    if keras.backend.backend() == "jax":
        import jax

        ways[BATCH] = lambda: jax.device_put(_values(model), may_alias=False)
    return {
        "variables": len(model.variables),
        "bytes": size,
        "timings": alternate(ways, prepare=lambda: _forget_host(model)),
        "checks": checks,
    }


def check(model: Any) -> dict[str, str]:
    """Check where a clone is and how it got there; an empty text means that all is well."""
    wait()
    twin, on_the_way = _watched(lambda: ramet.clone(model))
    pairs = list(zip(_values(model), _values(twin), strict=True))
    sources = {_pointer(value) for value in _values(model)}
    moved = sum(old.device != new.device for old, new in pairs)
    different = sum(not bool((old == new).all()) for old, new in pairs)
    shared = sum(_pointer(new) in sources for _, new in pairs)
    return {
        "on the same device": f"{moved} of {len(pairs)} moved" if moved else "",
        "equal": f"{different} of {len(pairs)} differ" if different else "",
        "in buffers of their own": f"{shared} of {len(pairs)} shared" if shared else "",
        "never on the host": on_the_way or _blind(model),
    }


def device() -> str:
    """Return the name of the GPU, or say that there is none."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.devices()[0].device_kind
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def markdown(result: dict[str, Any]) -> str:
    """Write the table of one backend, and what was checked."""
    rows: list[list[str]] = []
    for name, model in result["models"].items():
        timings = model["timings"]
        figures = (ratio(timings, way, CLONE) for way in PEERS)
        clone = best(timings, CLONE)
        rows.append([
            name,
            number(model["bytes"] / 1e6),
            timings[CLONE].get("error", "") if clone is None else number(clone * 1000),
            *(NONE if figure is None else number(figure) for figure in figures),
        ])  # fmt: skip
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    checks = [
        f"- {name}: the variables of the clone are {what}: {problem or 'yes'}"
        for name, model in result["models"].items()
        for what, problem in model["checks"].items()
    ]
    return "\n\n".join([
        f"## {result['backend']}",
        f"{result['date']}; {result['device']}; {versions}.",
        table(["model", "MB", f"{CLONE}, ms", *PEERS], rows),
        "\n".join(checks),
    ])  # fmt: skip


def _watched(way: Callable[[], Any]) -> tuple[Any, str]:
    """Run a way, and return which transfers between host and device it caused, if any."""
    if keras.backend.backend() == "jax":
        import jax

        with jax.transfer_guard("disallow"), jax.transfer_guard_device_to_host("disallow_explicit"):
            try:
                result = way()
                wait()
            except jax.errors.JaxRuntimeError as error:
                problem = str(error).splitlines()[0]
            else:
                return result, ""
        return way(), problem
    from torch.profiler import profile

    with profile() as profiler:
        result = way()
        wait()
    events: Any = profiler.key_averages()
    moves = [
        f"{event.count} times {event.key}"
        for event in events
        if event.key.startswith(("Memcpy HtoD", "Memcpy DtoH"))
    ]
    return result, ", ".join(moves)


def _blind(model: Any) -> str:
    """Return a warning if the watch misses a transfer that is certain to happen."""
    if device() == "cpu" or _watched(model.get_weights)[1]:
        return ""
    return "not known: the watch did not see get_weights either"


def _forget_host(model: Any) -> None:
    """Assign a new array to every variable: JAX caches on the host what was there once."""
    if keras.backend.backend() == "jax":
        for variable in model.variables:
            variable.assign(_copy(variable.value))


def _values(model: Any) -> list[Any]:
    return [variable.value for variable in model.variables]


def _copy(value: Any) -> Any:
    if keras.backend.backend() == "jax":
        import jax.numpy as jnp

        return jnp.copy(value)
    return value.detach().clone()


def _pointer(value: Any) -> int:
    if keras.backend.backend() == "jax":
        return value.unsafe_buffer_pointer()
    return value.data_ptr()


if __name__ == "__main__":
    main()
