"""`make matrix`: ramet with each version of Keras, on each backend and Python.

A cell is one of each. Every cell runs tests/smoke.py and the tests of `keras_internals`; with
`--suite`, the corners run the whole suite: the oldest and the newest Keras, on the oldest and the
newest Python. What cannot be had on this machine is skipped, with a sentence.

    python tests/matrix.py --pythons 3.11 3.12 --keras 3.12 3.15 newest --backends jax torch
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from functools import cache
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / "build" / "matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
KERAS = ("3.12", "3.13", "3.14", "3.15", "newest")
PACKAGES = {"jax": "jax", "tensorflow": "tensorflow-cpu", "torch": "torch"}
TOOLS = ("h5py", "hypothesis", "numpy", "pytest", "pytest-timeout", "pytest-xdist")
NEEDS = ("absl-py", "ml_dtypes", "namex", "optree", "packaging", "rich", "setuptools", "typer")
SMOKE = ("tests/smoke.py", "tests/keras_internals")


class Missing(Exception):  # noqa: N818 a reason to skip, not an error
    """Something that a cell needs and this machine does not have."""


def done(*command: object, **environment: str) -> subprocess.CompletedProcess:
    """Runs a command to its end."""
    return subprocess.run(  # noqa: S603 pip, the interpreters, and the tests
        [str(part) for part in command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def interpreter(python: str) -> Path:
    """Finds a Python: on the path, among those of pyenv, or among those of uv."""
    candidates = [shutil.which(f"python{python}")]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += sorted(pyenv.glob(f"{python}.*/bin/python"), reverse=True)
    if shutil.which("uv"):
        candidates.append(done("uv", "python", "find", python).stdout.strip())
    show = "import sys; print('%d.%d' % sys.version_info[:2])"
    for candidate in filter(None, candidates):
        if done(candidate, "-c", show).stdout.strip() == python:
            return Path(candidate)
    message = f"Python {python} is not installed; put python{python} on the path"
    raise Missing(message)


def constraints() -> Path:
    """Writes the pinned versions of everything but Keras, of which a cell has its own."""
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    path = HOME / "constraints.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(line for line in pinned if not line.startswith("keras==")))
    return path


@cache
def environment(python: str) -> Path:
    """Makes the environment of a Python, with ramet built for it, and returns its interpreter."""
    folder = HOME / f"python-{python}"
    own = folder / "bin" / "python"
    if not own.exists():
        require(done(interpreter(python), "-m", "venv", folder), f"Python {python}")
    install(own, *TOOLS, *NEEDS)
    built = done(own, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", ROOT)
    require(built, f"ramet on Python {python}")
    return own


@cache
def backend(python: str, name: str) -> None:
    """Installs a backend, unless there is no build of it for the CPU alone."""
    own, report = environment(python), HOME / "report.json"
    if done(own, "-c", f"import {name}").returncode == 0:
        return
    asked = ("--dry-run", "--report", report, "-c", constraints(), PACKAGES[name])
    planned = done(own, "-m", "pip", "install", "-q", *asked)
    if planned.returncode:
        message = f"{name} has no build for Python {python}"
        raise Missing(message)
    parts = [part["metadata"]["name"] for part in json.loads(report.read_text())["install"]]
    if any(part.startswith("nvidia") for part in parts):
        message = f"{name} has no build for the CPU alone for Python {python} here"
        raise Missing(message)
    install(own, PACKAGES[name])


def keras(python: str, version: str) -> str:
    """Installs a version of Keras in the environment of a Python, and returns its full number."""
    own = environment(python)
    wanted = {"newest": "keras", "nightly": "keras-nightly"}.get(version, f"keras=={version}.*")
    done(own, "-m", "pip", "uninstall", "-q", "-y", "keras", "keras-nightly")
    pre = ["--pre"] * (version == "nightly")
    if done(own, "-m", "pip", "install", "-q", "--no-deps", *pre, wanted).returncode:
        message = f"there is no Keras {version}"
        raise Missing(message)
    show = f"import importlib.metadata as m; print(m.version({wanted.partition('=')[0]!r}))"
    return done(own, "-c", show).stdout.strip()


def install(own: Path, *packages: str) -> None:
    """Installs packages in the pinned versions; near ones where a Python has not got those."""
    pip = (own, "-m", "pip", "install", "-q")
    if done(*pip, "-c", constraints(), *packages).returncode:
        require(done(*pip, *packages), " ".join(packages))


def require(result: subprocess.CompletedProcess, what: str) -> None:
    """Stops where something failed that should not."""
    if result.returncode:
        sys.exit(f"{what} cannot be installed:\n{result.stderr}")


def run(python: str, version: str, name: str, options: argparse.Namespace) -> str:
    """Runs the tests of one cell, and returns the last line of what they say."""
    own = environment(python)
    backend(python, name)
    corner = (
        options.suite and {python} <= ends(options.pythons) and {version} <= ends(options.keras)
    )
    tests = ("tests",) if corner else SMOKE
    log = HOME / f"{python}-{version}-{name}.log"
    flags = os.environ.get("XLA_FLAGS", "")
    result = done(
        *(own, "-m", "pytest", "-q", "-n", options.workers, *tests),
        *("-p", "no:cacheprovider"),
        KERAS_BACKEND=name,
        OMP_NUM_THREADS="1",
        XLA_FLAGS=f"{flags} --xla_cpu_use_fusion_emitters=false" if name == "jax" else flags,
    )
    log.write_text(result.stdout + result.stderr, encoding="utf-8")
    lines = result.stdout.strip().splitlines() or ["no output"]
    verdict = lines[-1].strip("= ")
    hint = "" if result.returncode == 0 else f" FAILED, see {log.relative_to(ROOT)}"
    return f"{'suite' if corner else 'smoke'}: {verdict}{hint}"


def say(python: str, version: str, text: str) -> None:
    """Prints a line of the table."""
    sys.stdout.write(f"{python:5} {version:22} {text}\n")
    sys.stdout.flush()


def ends(values: list[str]) -> set[str]:
    """Returns the first and the last of some versions."""
    return {values[0], values[-1]}


def main() -> None:
    """Runs all cells, and fails if one of them does."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pythons", nargs="+", default=PYTHONS)
    parser.add_argument("--keras", nargs="+", default=KERAS, help="also: newest, nightly")
    parser.add_argument("--backends", nargs="+", default=tuple(PACKAGES), choices=PACKAGES)
    parser.add_argument("--workers", default="auto", help="processes for the tests of a cell")
    parser.add_argument("--suite", action="store_true", help="the whole suite in the corners")
    options = parser.parse_args()
    options.pythons = [python for python in options.pythons if is_here(python)]
    failed, seen = 0, set[tuple[str, str, str]]()
    for python, version in product(options.pythons, options.keras):
        try:
            full = keras(python, version)
        except Missing as reason:
            say(python, version, f"skipped: {reason}")
            continue
        for name in options.backends:
            start = time.monotonic()
            try:
                is_new = (python, full, name) not in seen
                seen.add((python, full, name))
                verdict = run(python, version, name, options) if is_new else "run above"
            except Missing as reason:
                verdict = f"skipped: {reason}"
            failed += "FAILED" in verdict
            seconds = f"{time.monotonic() - start:.0f} s"
            say(python, full, f"{name:11} {seconds:>6}  {verdict}")
    if failed:
        sys.exit(f"{failed} cells failed")


def is_here(python: str) -> bool:
    """Whether there is such a Python; if not, says so."""
    try:
        interpreter(python)
    except Missing as reason:
        say(python, "", f"skipped: {reason}")
        return False
    return True


if __name__ == "__main__":
    main()
