"""What is imported when: Keras and its backends only where the work needs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest
from keras import layers

SOURCE = Path(__file__).parents[1] / "src"
HEAVY = ("keras", "jax", "jaxlib", "tensorflow", "torch")
VERBS = ("clone", "verify", "diff", "masks", "show", "emit", "edit")

WITHOUT_KERAS = f"""
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY}:
            raise ImportError(f"{{name}} was imported")

sys.meta_path.insert(0, Refused())
from ramet.cli import main
try:
    main()
finally:
    assert not {{*{HEAVY}}} & sys.modules.keys()
"""


def process(code, *args, cwd, **environment):
    return subprocess.run(  # noqa: S603 the interpreter that runs the tests
        [sys.executable, "-c", code, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "COLUMNS": "150", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with two models."""
    found = tmp_path_factory.mktemp("models")
    for name, units in (("first", 4), ("second", 5)):
        x = keras.Input((6,), name="x")
        y = layers.Dense(units, activation="relu", name="hidden")(x)
        keras.Model(x, layers.Dense(2, name="head")(y), name="net").save(found / f"{name}.keras")
    return found


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (["--help"], "Usage: ramet"),
        (["--version"], "ramet"),
        *(([verb, "--help"], f"Usage: ramet {verb}") for verb in VERBS),
        (["show", "first.keras"], "38 parameters"),
        (["show", "first.keras", "--json"], "38 parameters"),
        (["show", "first.keras", "second.keras"], "changed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_answers_without_keras(args, shown, folder):
    done = process(WITHOUT_KERAS, *args, cwd=folder, KERAS_BACKEND="none")
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_the_shell_completes_without_keras(folder):
    asked = {"_RAMET_COMPLETE": "complete_bash", "COMP_WORDS": "ramet s", "COMP_CWORD": "1"}
    done = process(WITHOUT_KERAS, cwd=folder, **asked)
    assert done.stdout.split() == ["show"], done.stderr


def test_a_wrong_command_line_is_told_without_keras(folder):
    for args in (["show"], ["shwo"], ["show", "none.keras"], ["clone", "first.keras", "x.h5"]):
        assert process(WITHOUT_KERAS, *args, cwd=folder).returncode == 2


MODULES = """
import json, sys
{first}
before = {{*sys.modules}}
import ramet
print(json.dumps(sorted({{*sys.modules}} - before)))
"""


def test_a_clone_needs_no_graph(tmp_path):
    code = """
import keras, ramet
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
ramet.clones(model, 2)
import sys
print([name for name in sys.modules if name.startswith("ramet.graph")])
"""
    done = process(code, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


@pytest.mark.parametrize("first", ["import keras", ""])
def test_import_brings_in_little(first, tmp_path):
    done = process(MODULES.format(first=first), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    added = json.loads(done.stdout.splitlines()[-1])
    packages = {name.partition(".")[0] for name in added}
    assert packages <= {"ramet", *sys.stdlib_module_names}
    assert sum(name.partition(".")[0] == "ramet" for name in added) < 40
    assert not any(name.startswith("ramet.bridge") for name in added)
