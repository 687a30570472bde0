"""`ramet doctor`: what an installation lacks, and what to do about it."""

import json
import os
import subprocess
import sys

import pytest

import ramet
from ramet import _doctor, _versions
from ramet._doctor import doctor
from ramet.copying import core

pytestmark = pytest.mark.backend_free


def fact(name):
    return next(each for each in doctor().facts if each.name == name)


def hide(monkeypatch, *packages):
    real = _doctor.find_spec
    monkeypatch.setattr(_doctor, "find_spec", lambda n: None if n in packages else real(n))


def test_this_installation_is_fine():
    found = doctor()
    assert found
    assert found.ok
    names = ["ramet", "Python", "Keras", "jax", "tensorflow", "torch", "backend", "core", "files"]
    assert [each.name for each in found.facts] == names
    assert fact("ramet").value == ramet.__version__
    assert "0 problems with this installation of ramet" in str(found)
    assert found.to_dict()["ok"] is True


def test_every_backend_has_a_version():
    values = [fact(name).value for name in ("jax", "tensorflow", "torch")]
    assert all(value[0].isdigit() or value == "not installed" for value in values)


@pytest.mark.parametrize(
    ("found", "value", "problem"),
    [
        ("3.11.3", "3.11.3", "ramet needs 3.12 or newer: pip install -U keras"),
        ("3.15.1", "3.15.1 (the newest that ramet is tested with is 3.15)", ""),
        ("3.99.0", "3.99.0 (newer than the newest that ramet is tested with is 3.15)", ""),
        (None, "not installed", "install it: pip install 'keras>=3.12'"),
    ],
)
def test_keras_may_be_missing_or_old_or_new(monkeypatch, found, value, problem):
    monkeypatch.setattr(_doctor, "_version", lambda _: found)
    keras = fact("Keras")
    assert (keras.value, keras.problem) == (value, problem)
    assert doctor().ok == (not problem)
    assert _versions.KERAS == ("3.12", "3.15")


def test_backends_may_be_missing(monkeypatch):
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.delenv("KERAS_BACKEND")
    hide(monkeypatch, "jax", "torch")
    assert fact("jax").value == "not installed"
    assert fact("backend").value == "tensorflow on the command line (KERAS_BACKEND is not set)"
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    assert fact("backend").problem == "set KERAS_BACKEND to one that is installed: tensorflow"
    hide(monkeypatch, "jax", "torch", "tensorflow")
    assert fact("backend").problem == "install one of jax, tensorflow, torch"
    assert "1 problem with this installation" in str(doctor())
    assert "backend: install one of" in str(doctor())


def run(*args, **environment):
    return subprocess.run(  # noqa: S603 the interpreter that runs the tests
        [sys.executable, *args],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_core_is_named_with_the_reason():
    if core.Core is core.PythonCore:
        assert fact("core").value.startswith("Python, ")
    else:
        assert fact("core").value == "C"
    done = run("-m", "ramet", "doctor", "--json", RAMET_PURE_PYTHON="1")
    facts = {each["name"]: each["value"] for each in json.loads(done.stdout)["facts"]}
    assert "(RAMET_PURE_PYTHON is set)" in facts["core"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModuleNotFoundError("x"), "there was no C compiler when ramet was installed"),
        (ImportError("the core in C needs the GIL"), "the core in C needs the GIL"),
    ],
)
def test_the_reason_is_that_of_the_import(error, reason):
    code = f"""
import importlib
real = importlib.import_module
def fail(name, *args):
    if name == "ramet.copying._core":
        raise {error!r}
    return real(name, *args)
importlib.import_module = fail
from ramet.copying import core
print(core.Core is core.PythonCore, core.why_python)
"""
    assert run("-c", code, RAMET_PURE_PYTHON="").stdout.strip() == f"True {reason}"


def test_on_the_command_line_keras_is_not_imported():
    code = """
import sys
from ramet.cli import main
sys.argv = ["ramet", "doctor", "--backend", sys.argv[1]]
try:
    main()
finally:
    assert "keras" not in sys.modules
"""
    done = run("-c", code, os.environ["KERAS_BACKEND"])
    assert done.returncode == 0, done.stderr
    assert "reads .keras, .h5, .hdf5; writes .keras" in done.stdout
    assert f"{os.environ['KERAS_BACKEND']} (KERAS_BACKEND)" in done.stdout
