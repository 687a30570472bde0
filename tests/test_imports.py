"""What is imported when: Keras and its backends only where the work needs them."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import keras
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.one_backend

SOURCE = Path(__file__).parents[1] / "src"
HEAVY = ("keras", "jax", "jaxlib", "tensorflow", "torch")
VERBS = ("clone", "verify", "diff", "masks", "show", "emit", "edit", "profile")

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
    assert not any(name.startswith("ramet.keras_internals") for name in added)


PUBLIC = {
    *("clone", "clones", "clone_model", "trace", "verify", "diff", "show", "masks", "emit"),
    *("merge", "chain", "rewrite", "run", "any_layer", "profile", "prove", "Graph", "RametError"),
}
"""The names that users type; adding one is a decision."""


def test_few_names_are_public():
    assert {*ramet.__all__} == PUBLIC
    assert {*dir(ramet)} == PUBLIC | {
        "adapt",
        "compress",
        "errors",
        "files",
        "graph",
        "profiling",
        "results",
        "__version__",
    }
    assert all(getattr(ramet, name) is not None for name in dir(ramet))


COMPRESS = {
    "channel_rule",
    "deepen",
    "factorizable",
    "factorize",
    "fold",
    "foldable",
    "groups",
    "prune",
    "prune_channels",
    "widen",
}


def test_the_names_of_compress_are_chosen():
    assert {*ramet.compress.__all__} == COMPRESS


def test_names_that_were_public_once_are_found_quietly():
    homes = {
        "ramet.errors": ("GraphError", "CopyError", "StateError", "FileError"),
        "ramet.graph": ("Journal", "Layer", "Call", "Ref", "Spec", "Selection", "Edit"),
        "ramet.results": ("Report", "Diff", "MaskFlow", "Source", "Explanation", "Finding"),
    }
    for module, names in homes.items():
        for name in names:
            assert getattr(ramet, name) is getattr(importlib.import_module(module), name)
    with pytest.raises(AttributeError, match="module 'ramet' has no attribute 'nonsense'"):
        _ = ramet.nonsense


def test_all_names_of_errors_and_results_have_one_home():
    for module in (ramet.results, ramet.errors):
        names = {n for n, value in vars(module).items() if isinstance(value, type) and n[0] != "_"}
        assert names <= {*ramet.__all__, *ramet._HIDDEN}, module


def test_comparing_imports_no_other_backend(tmp_path):
    code = """
import sys
import keras, ramet
backends = {"jax", "tensorflow", "torch"}
before = backends & {*sys.modules}
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), keras.layers.Dropout(0.5)])
twin = ramet.clone(model)
assert ramet.verify(model, twin) and not ramet.diff(model, twin)
ramet.show(model, twin)
assert backends & {*sys.modules} == before
"""
    done = process(code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


WITHOUT = """
import os, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in {missing} else found(name)
import ramet
try:
    ramet.clone
except ramet.RametError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("missing", "backend", "advice"),
    [
        (("tensorflow",), None, "set to run on 'tensorflow', which is not installed; installed: "),
        (("tensorflow",), None, "Set the environment variable KERAS_BACKEND=jax before Keras is"),
        (("jax", "torch"), "jax", "KERAS_BACKEND=tensorflow before"),
        (("jax", "torch", "tensorflow"), "torch", "none is installed; install one of jax, tens"),
        ((), "pytorch", "'pytorch', which is not one of jax, tensorflow, torch; installed: jax"),
    ],
)
def test_a_backend_that_is_not_installed_is_one_sentence(missing, backend, advice, tmp_path):
    chosen = {} if backend is None else {"KERAS_BACKEND": backend}
    settings = {**chosen, "KERAS_HOME": str(tmp_path)}
    kept = os.environ.pop("KERAS_BACKEND", None)
    try:
        done = process(WITHOUT.format(missing=missing), cwd=tmp_path, **settings)
    finally:
        if kept is not None:
            os.environ["KERAS_BACKEND"] = kept
    assert done.stdout.startswith("ExtraError Keras "), done.stderr
    assert advice in done.stdout


WITHOUT_TENSORFLOW = """
import sys

import keras
from keras import layers
import ramet

x = keras.Input((6, 8))
y = layers.MultiHeadAttention(2, 4, name="attention")(x, x)
y = layers.LSTM(4, return_sequences=True, name="lstm")(y)
y = layers.Conv1D(8, 3, padding="same", name="conv")(y)
y = layers.BatchNormalization(name="norm")(y)
model = keras.Model(x, layers.Dense(2, name="head")(layers.Dense(8, name="mid")(y)), name="net")
model.compile("adam", "mse")
assert "tensorflow" not in sys.modules
"""

VERBS_ON_MODELS = (
    "ramet.clone(model)",
    "ramet.clone(model, weights='fresh')",
    "ramet.trace(model).freeze('attention').build()",
    "ramet.trace(model).configure('lstm', unroll=True).journal",
    "ramet.prove(ramet.compress.fold(model))",
    "ramet.prove(ramet.compress.prune(model, ratio=0.5))",
    "ramet.compress.widen(model, 'mid', 12).build()",
    "ramet.compress.deepen(model, 'mid').build()",
    "ramet.compress.factorize(model, at='mid', rank=2).build()",
    "ramet.adapt.merge(ramet.adapt.lora(model, '*', rank=1).build()).build()",
    "ramet.adapt.quantize(model, {'mid': 'int8'}).build()",
    "ramet.adapt.cast(model, '*', 'mixed_bfloat16').build()",
    "ramet.adapt.taps(model, model, {'mid': 'mid'})",
    "ramet.profile(model)",
    "ramet.diff(model, ramet.clone(model))",
    "ramet.verify(model, ramet.clone(model))",
)


def test_tensorflow_is_imported_by_no_verb_on_other_backends(tmp_path):
    code = WITHOUT_TENSORFLOW + "\n".join(
        f"{line}\nassert 'tensorflow' not in sys.modules, {line!r}" for line in VERBS_ON_MODELS
    )
    done = process(code, cwd=tmp_path, KERAS_BACKEND="torch")
    assert done.returncode == 0, done.stderr[-600:]


def test_configs_are_read_in_the_one_way_that_does_not_import_tensorflow():
    asks = re.compile(r"(?<!super\(\))\.get_config\(|keras\.saving\.serialize_keras_object\(")
    files = {path for path in SOURCE.rglob("*.py") if asks.search(path.read_text("utf-8"))}
    assert {path.name for path in files} == {"serialization.py", "teacher.py"}  # its own config
