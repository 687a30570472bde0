"""The inventory of private Keras names: complete, without leftovers, and true of this Keras."""

import ast
import importlib
import re
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers
from keras.src.metrics.reduction_metrics import MeanMetricWrapper
from keras.src.ops.numpy import Add
from keras.src.trainers.compile_utils import CompileLoss, CompileMetrics
from keras.src.utils import module_utils

import ramet.keras_internals
from ramet.keras_internals.inventory import (
    ATTRIBUTES,
    BACKEND_ATTRIBUTES,
    FIELDS,
    IMPORTS,
    NEWEST,
    OLDEST,
    Private,
)
from ramet.keras_internals.versions import assigned_fields, is_untested

PACKAGE = Path(ramet.keras_internals.__file__).parent
PRIVATE = re.compile(r"(?<!\w)_[a-z]\w*")
VERSION = tuple(int(part) for part in keras.__version__.split(".")[:2])


def used_names(source: str) -> tuple[set[tuple[str, str]], set[str]]:
    """Returns the imports from `keras.src`, and the private attributes, that a source names.

    Attributes by access (`x._name`, but not `self._name`, which is ramet's own) and in strings
    (`vars(x)["_name"]`); not in docstrings, nor in parts of f-strings.
    """
    nodes = [*ast.walk(ast.parse(source))]
    silent = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    silent |= {id(part) for n in nodes if isinstance(n, ast.JoinedStr) for part in n.values}
    imports, attributes = set(), set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("keras.src"):
            imports |= {(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {(a.name, "") for a in node.names if a.name.startswith("keras.src")}
        elif isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                attributes.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            attributes |= set() if id(node) in silent else {*PRIVATE.findall(node.value)}
    return imports, attributes


def used_by_package() -> tuple[set[tuple[str, str]], set[str]]:
    files = [path for path in PACKAGE.glob("*.py") if path.name != "inventory.py"]
    imports, attributes = zip(*(used_names(path.read_text()) for path in files), strict=True)
    return set().union(*imports), set().union(*attributes)


def test_every_use_is_found_however_it_is_written():
    source = '''
"""A docstring that mentions _nothing."""
from keras.src.ops.node import Node
import keras.src.utils
FIELD = "_field"
"""Another that mentions _nothing."""
class Own:
    def method(self, x):
        self._own = f"_{x}_part", x._attribute, vars(x)["_item"], "x._in_text"
'''
    imports, attributes = used_names(source)
    assert imports == {("keras.src.ops.node", "Node"), ("keras.src.utils", "")}
    assert attributes == {"_field", "_attribute", "_item", "_in_text"}


def test_every_private_name_that_is_used_is_listed_and_every_listed_one_is_used():
    imports, attributes = used_by_package()
    assert {(each.owner, each.name) for each in IMPORTS} == imports
    listed = [each.name for each in (*ATTRIBUTES, *BACKEND_ATTRIBUTES)]
    assert len(listed) == len({*listed}), "a name is listed twice"
    assert {*listed} == attributes


def specimens() -> dict[str, object]:
    """Returns an object of every class in the inventory; or the class, for methods."""
    inputs = keras.Input((4, 8))
    masked = layers.Masking()(inputs)
    gate = {"use_gate": True} if VERSION >= (3, 14) else {}
    attention = layers.MultiHeadAttention(2, 4, **gate)
    dense = layers.Dense(8)
    outputs = dense(attention(masked, masked))
    model = keras.Model(inputs, outputs)
    model.compile("adam", "mse", metrics=["mse"])
    model.evaluate(np.ones((2, 4, 8)), np.ones((2, 4, 8)), verbose=0)
    loss, metrics = CompileLoss("mse"), CompileMetrics(["mse"], None)
    for compiled in (loss, metrics):
        compiled.build(outputs, outputs)
    normalization = layers.Normalization()
    normalization.build((None, 4))
    optimizer = keras.optimizers.Adam(use_ema=True)
    optimizer.build(dense.trainable_variables)
    return {
        "CompileLoss": loss,
        "CompileMetrics": metrics,
        "Function": model,
        "IntegerLookup": layers.IntegerLookup,
        "KerasTensor": inputs,
        "Dense": dense,
        "Embedding": layers.Embedding(2, 2),
        "Layer": dense,
        "LazyModule": module_utils.tensorflow,
        "MaskedTensor": masked,
        "MeanMetricWrapper": MeanMetricWrapper(keras.losses.mean_squared_error),
        "Model": model,
        "MultiHeadAttention": attention,
        "Normalization": normalization,
        "Operation": Add(),
        "Optimizer": optimizer,
        "RandomInitializer": keras.initializers.RandomNormal(),
        "SeedGenerator": keras.random.SeedGenerator(1),
        "SymbolicArguments": dense._inbound_nodes[0].arguments,
        "ShapedLayer": layers.Dense(1, input_shape=(2,)),
        "Sequential": keras.Sequential([keras.Input((2,)), layers.Dense(2)]),
        "UnbuiltLayer.build": layers.Layer().build,
        "Variable": dense.kernel,
    }


def is_here(each: Private, backend: str) -> bool:
    """Whether the installed Keras, on this backend, should have a name."""
    since = tuple(int(part) for part in each.since.split("."))
    exists = since <= VERSION and keras.__version__ not in each.lacking
    return exists and each.backend in (None, backend)


@pytest.mark.parametrize("each", IMPORTS, ids=lambda each: each.name)
def test_every_import_exists(each):
    assert hasattr(importlib.import_module(each.owner), each.name)


def test_every_attribute_exists(backend):
    objects = specimens()
    expected = [each for each in ATTRIBUTES if is_here(each, backend)]
    missing = [
        f"{each.owner}.{each.name}"
        for each in expected
        if not hasattr(objects[each.owner], each.name)
    ]
    assert not missing


def test_no_name_is_listed_as_newer_than_it_is():
    objects = specimens()
    later = [each for each in ATTRIBUTES if not is_here(each, each.backend or "any")]
    assert not [each for each in later if hasattr(objects.get(each.owner), each.name)]


def test_every_field_of_a_base_class_is_known():
    if is_untested():
        pytest.skip(f"Keras {keras.__version__} is newer than {NEWEST}: users are warned")
    unknown = {name: owner for name, owner in assigned_fields().items() if name not in FIELDS}
    assert not unknown


def test_fields_are_found_in_methods_properties_and_functions_inside_them():
    fields = assigned_fields()
    assert fields["_inbound_nodes"] == "Operation"  # in `__init__`
    assert fields["_trainable"] == "Layer"  # in the setter of a property, too
    assert fields["_keras_history"] in {"Node", "Functional"}
    assert not {name for name in fields if not name.startswith("_")}


def test_the_dependency_starts_at_the_oldest_version():
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"keras>={OLDEST}"' in pyproject


def test_the_trainer_is_the_class_that_models_have_and_layers_have_not():
    trainer = ramet.keras_internals.Trainer
    assert trainer.__module__.startswith("keras.")
    assert issubclass(keras.Model, trainer)
    assert not issubclass(layers.Dense, trainer)
    assert keras.Model.compile is trainer.compile
