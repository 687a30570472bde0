"""Measure each backend in a process of its own, and write the tables."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.imports import measure_imports
from benchmarks.report import markdown
from benchmarks.results import MLP, MODELS, QUICK, Result

HERE = Path(__file__).parent
BACKENDS = ("jax", "tensorflow", "torch")


def main() -> None:
    """Measure, then write `results/<backend>.json` and `RESULTS.md`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--models", nargs="+", choices=MODELS, help="all by default")
    parser.add_argument("--quick", action="store_true", help="two models, two rounds")
    parser.add_argument(
        "--out",
        type=Path,
        help="folder to write to; by default this one, and build/bench for a part of the models",
    )
    options = parser.parse_args()
    models = options.models or (QUICK if options.quick else MODELS)
    whole = set(models) == set(MODELS) and not options.quick
    out = options.out or (HERE if whole else HERE.parent / "build" / "bench")
    (out / "results").mkdir(parents=True, exist_ok=True)
    for backend in options.backends:
        result = measure(backend, models, rounds=2 if options.quick else None)
        text = json.dumps(result, indent=1)
        (out / "results" / f"{backend}.json").write_text(text + "\n", encoding="utf-8")
    shown = BACKENDS if whole else options.backends
    files = (out / "results" / f"{backend}.json" for backend in shown)
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
    tables = markdown(results)
    (out / "RESULTS.md").write_text(tables, encoding="utf-8")
    print(tables)


def measure(backend: str, models: Sequence[str], *, rounds: int | None) -> Result:
    """Measure one backend, in processes of its own."""
    environment = {**os.environ, "KERAS_BACKEND": backend}
    arguments = ["--models", *models] + ([] if rounds is None else ["--rounds", str(rounds)])
    result: Result = _work(arguments, environment)
    if MLP in models:
        result["memory"] = _work(["--memory"], environment)
    result["imports"] = measure_imports(environment, rounds or 5)
    return result


def _work(arguments: Sequence[str], environment: Mapping[str, str]) -> Any:
    """Run the worker, and return what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "result.json"
        command = [sys.executable, "-m", "benchmarks.worker", str(out), *arguments]
        subprocess.run(command, cwd=HERE.parent, env=environment, check=True)
        return json.loads(out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
