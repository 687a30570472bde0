"""Hunt for memory errors in the core of the copier: `make hunt` runs this.

A copy of the package is put into build/sanitized, with the core in C compiled for the sanitizers of
addresses and of undefined behaviour. Its tests run on that, then random graphs of objects, some of
them with user code that changes whatever is in memory. At last, copies are made in a loop with the
ordinary core, and what they leave behind is counted.
"""

import gc
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TARGET = ROOT / "build" / "sanitized"
GRAPHS = int(os.environ.get("RAMET_HUNT_GRAPHS", "5000"))
SEED = int(os.environ.get("RAMET_HUNT_SEED", "0"))


def main() -> None:
    """Compile, and run everything; exit with 1 at the first error."""
    if shutil.which("gcc") is None:
        sys.exit("the sanitizers need gcc, which is not installed")
    compile_core()
    tests = ["-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "-W", "ignore"]
    tests += ["-k", "not needs_no_more_of_the_stack"]  # as it does with sanitizers
    run([*tests, "-c", os.devnull, str(HERE / "test_core.py"), str(HERE / "test_deeper.py")])
    run([__file__, "graphs"])
    leaks = [sys.executable, __file__, "leaks"]
    subprocess.run(
        leaks, check=True, env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    )
    print("no errors")


def compile_core() -> None:
    """Compile the core for the sanitizers, into a copy of the package."""
    shutil.rmtree(TARGET, ignore_errors=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd")
    shutil.copytree(ROOT / "src" / "ramet", TARGET / "ramet", ignore=ignored)
    copying = TARGET / "ramet" / "copying"
    command = ["gcc", "-shared", "-fPIC", "-g", "-O1", "-fno-omit-frame-pointer"]
    command += ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
    command += [f"-I{sysconfig.get_path('include')}", str(copying / "_core.c")]
    command += ["-o", str(copying / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}")]
    subprocess.run(command, check=True)


def run(arguments: list[str]) -> None:
    """Run Python on the sanitized core."""
    libraries = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",  # so that each object is a block of its own
        "PYTHONPATH": f"{TARGET}:{ROOT / 'tests'}",
    }
    subprocess.run([sys.executable, *arguments], check=True, env=environment)


def copy_graphs() -> None:
    """Copy random graphs on both cores, and compare."""
    from objectgraphs import outcome
    from ramet.copying import core

    assert Path(core.__file__).is_relative_to(TARGET), core.__file__
    assert core.Core is not core.PythonCore
    for seed in range(SEED, SEED + GRAPHS):
        expected, found = outcome(core.PythonCore, seed), outcome(core.Core, seed)
        if found != expected:
            sys.exit(f"graph {seed} differs\n\nin Python:\n{expected}\n\nin C:\n{found}")
        outcome(core.Core, seed, wild=True)
    print(f"{GRAPHS} graphs are the same on both cores")


def count_leaks() -> None:
    """Copy the same graphs again and again, and count the blocks of memory in use."""
    from objectgraphs import outcome
    from ramet.copying import core

    assert core.Core is not core.PythonCore

    def blocks() -> int:
        for seed in range(SEED, SEED + 300):
            outcome(core.Core, seed)
        gc.collect()
        return sys.getallocatedblocks()

    blocks()
    first = blocks()
    left = blocks() - first
    if left > 100:
        sys.exit(f"300 copies leave {left} blocks of memory behind")
    print(f"300 copies leave {left} blocks of memory behind")


if __name__ == "__main__":
    steps = {"graphs": copy_graphs, "leaks": count_leaks}
    steps[sys.argv[1]]() if len(sys.argv) > 1 else main()
