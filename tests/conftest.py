"""What every test gets: a chosen backend, quiet logs, and the same random seed each time."""

import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

BACKENDS = ("jax", "tensorflow", "torch")


def pytest_configure() -> None:
    """Refuses to start without a backend: Keras would choose one by itself, and silently."""
    found = os.environ.get("KERAS_BACKEND", "unset")
    if found not in BACKENDS:
        raise pytest.UsageError(
            f"KERAS_BACKEND is {found}; the tests run on one backend per process. "
            f"Set it to one of {', '.join(BACKENDS)}, or run `make test` for all of them."
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips what the installed Keras cannot do."""
    for item in items:
        mark = item.get_closest_marker("since_keras")
        if mark is not None:
            import keras

            version = tuple(int(part) for part in keras.__version__.split(".")[:2])
            if version < mark.args:
                item.add_marker(pytest.mark.skip(f"Keras {keras.__version__} cannot do this"))


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
