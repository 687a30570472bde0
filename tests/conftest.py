"""What every test gets: a chosen backend, quiet logs, and the same random seed each time."""

import gc
import os
import zlib
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["COLUMNS"] = "400"  # Sentences that tests look for are not folded on a wide terminal.

BACKENDS = ("jax", "tensorflow", "torch")

SHARES = {"jax": 0, "tensorflow": 1}
"""Which third of the tests marked as `sampled` a backend runs; PyTorch, the fastest, runs all."""


def pytest_configure() -> None:
    """Refuses to start without a backend: Keras would choose one by itself, and silently."""
    found = os.environ.get("KERAS_BACKEND", "unset")
    if found not in BACKENDS:
        raise pytest.UsageError(
            f"KERAS_BACKEND is {found}; the tests run on one backend per process. "
            f"Set it to one of {', '.join(BACKENDS)}, or run `make test` for all of them."
        )


def recorded(kind: str) -> Path | None:
    """Return the file in which `make test` looks for tests that ran nowhere; see nowhere.py."""
    record = os.environ.get("RAMET_TEST_RECORD")
    return None if record is None else Path(f"{record}.{kind}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Records whether a test ran; workers of xdist leave that to the process above them."""
    record = recorded("outcomes")
    if record is None or "PYTEST_XDIST_WORKER" in os.environ or report.when == "teardown":
        return
    if report.when == "call" or report.outcome != "passed":
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else ""
        with record.open("a", encoding="utf-8") as file:
            print(report.nodeid, report.outcome, " ".join(reason.split()), sep="\t", file=file)


@pytest.hookimpl(tryfirst=True)  # Before anything is deselected.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips what the installed Keras cannot do, and leaves what is sampled to other backends."""
    record = recorded("collected")
    if record is not None and os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        record.write_text("".join(f"{item.nodeid}\n" for item in items), encoding="utf-8")
    for item in items:
        mark = item.get_closest_marker("since_keras")
        if mark is not None:
            import keras

            version = tuple(int(part) for part in keras.__version__.split(".")[:2])
            if version < mark.args:
                item.add_marker(pytest.mark.skip(f"Keras {keras.__version__} cannot do this"))
    elsewhere = [item for item in items if is_left_to_others(item)]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if not is_left_to_others(item)]


def is_left_to_others(item: pytest.Item) -> bool:
    """Whether `make test` runs a sampled test on other backends than the one in use."""
    share = SHARES.get(os.environ["KERAS_BACKEND"])
    is_sampled = item.get_closest_marker("sampled") and os.environ.get("RAMET_TEST_SAMPLED")
    if share is None or not is_sampled:
        return False
    return zlib.crc32(item.nodeid.encode()) % 3 != share


@pytest.fixture(scope="session", autouse=True)
def _quick_compiler(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Has JAX compile each program once, and simply: most models here are small and alike."""
    if os.environ["KERAS_BACKEND"] != "jax":
        return
    import jax

    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # All workers have it in common.
    for name, value in {
        "jax_disable_most_optimizations": True,
        "jax_compilation_cache_dir": str(folder / "jax"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }.items():
        jax.config.update(name, value)


@pytest.fixture(scope="session", autouse=True)
def _small_heap() -> None:
    """Keeps what the backend made on import out of garbage collections.

    Those that tests ask for, and Keras for each layer that it quantizes, take a second otherwise.
    """
    import keras  # noqa: F401 with its backend

    gc.collect()
    gc.freeze()


@pytest.fixture
def backend() -> str:
    """The name of the Keras backend in use."""
    import keras

    return keras.backend.backend()


@pytest.fixture(autouse=True)
def _same_seed_each_time(request: pytest.FixtureRequest) -> None:
    """Makes a test's random numbers independent of the tests before it."""
    if request.node.get_closest_marker("backend_free"):
        return
    import keras

    keras.utils.set_random_seed(0)
