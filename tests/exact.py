"""Assertions on two models that should be the same, and on one that should not have changed.

Every helper is a plain function that raises AssertionError and says what differs, and where.
The module does not import ramet, so it can judge any way of copying a model.
"""

from __future__ import annotations

import enum
import functools
import itertools
import json
import random
import types
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras.src.backend.common import global_state
from keras.src.ops.node import Node
from keras.src.utils.tracking import Tracker

MODEL_FUNCTIONS = ("train_function", "test_function", "predict_function")

# What Keras keeps on an object for itself. Two equal models may differ in it (a layer may have
# been called in other models too), or hold it in an order that says nothing.
INTERNAL = {
    "_inbound_nodes",
    "_loss_ids",
    "_metrics_lock",
    "_nodes",
    "_nodes_by_depth",
    "_operations_by_depth",
    "_outbound_nodes",
    "_parent_path",
    "_tracker",
    "_trackers",
    *MODEL_FUNCTIONS,
}

# Classes of these packages are not looked into: they hold no Keras objects of the model.
CLOSED = ("_thread", "builtins", "jax", "jaxlib", "ml_dtypes", "numpy", "tensorflow", "torch")

Found = list[tuple[str, Any]]
"""Objects in the order of a walk, each with the path that led to it."""


# --- walking -------------------------------------------------------------------------


def is_stateful(x: Any) -> bool:
    """Whether `x` is one of the objects that two models must not share."""
    kinds = (
        keras.Variable,
        keras.Operation,
        keras.KerasTensor,
        keras.random.SeedGenerator,
        keras.optimizers.Optimizer,
        keras.metrics.Metric,
        Node,
        Tracker,
    )
    return isinstance(x, kinds)


def children(  # noqa: C901, PLR0912  one branch per kind of object
    x: Any, *, internals: bool
) -> Iterator[tuple[str, Any]]:
    """Give what an object refers to, in an order that is equal for equal objects."""
    if isinstance(x, (types.ModuleType, type)):
        return
    if isinstance(x, dict):
        yield from ((f"[{key!r}]", value) for key, value in x.items())
    elif isinstance(x, (list, tuple)):
        yield from ((f"[{i}]", value) for i, value in enumerate(x))
    elif isinstance(x, (set, frozenset)):
        yield from ((f"{{{i}}}", value) for i, value in enumerate(sorted(x, key=repr)))
    elif isinstance(x, functools.partial):
        yield from ((".func", x.func), (".args", x.args), (".keywords", x.keywords))
    elif isinstance(x, types.MethodType):
        yield from ((".__self__", x.__self__), (".__func__", x.__func__))
    elif isinstance(x, types.FunctionType):
        for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
            try:
                yield f"<{name}>", cell.cell_contents
            except ValueError:  # an empty cell
                continue
        yield from ((".__defaults__", x.__defaults__), (".__kwdefaults__", x.__kwdefaults__))
    elif isinstance(x, (keras.Variable, keras.KerasTensor)) and not internals:
        return
    elif hasattr(x, "__dict__") and not type(x).__module__.split(".")[0].startswith(CLOSED):
        for name in sorted(vars(x)):
            # TensorFlow writes down under `_self_` what it may have to save.
            if internals or not (name in INTERNAL or name.startswith("_self_")):
                yield f".{name}", vars(x)[name]


def walk(root: Any, *, internals: bool = False) -> Found:
    """Find everything that can be reached from an object; what is met again is listed again.

    With `internals`, nodes, symbolic tensors and trackers are followed too.
    """
    found: Found = []
    seen: dict[int, Any] = {}  # keeps what it has seen alive, so that ids stay unique
    todo = [(type(root).__name__, root)]
    while todo:
        path, x = todo.pop()
        found.append((path, x))
        if id(x) in seen:
            continue
        seen[id(x)] = x
        steps = [(path + step, value) for step, value in children(x, internals=internals)]
        todo.extend(reversed(steps))
    return found


def objects(model: Any, kind: Any) -> Found:
    """Find the objects of a kind, each once, under the first path that leads to it."""
    found = {}
    for path, x in walk(model):
        if isinstance(x, kind):
            found.setdefault(id(x), (path, x))
    return list(found.values())


def operations(model: Any) -> Found:
    """Find the layers and operations of a model, nested ones too, each once."""
    return objects(model, keras.Operation)


def variables(model: Any) -> Found:
    """Find every variable of a model: weights, seeds, metrics, slots, and untracked ones."""
    named = [(f"variables[{i}] {v.path}", v) for i, v in enumerate(model.variables)]
    return named + objects(model, keras.Variable)


def bits(variable: keras.Variable) -> tuple[str, tuple, bytes]:
    """Give the dtype, shape and bytes of a variable."""
    value = np.asarray(keras.ops.convert_to_numpy(variable.value))
    return str(variable.dtype), tuple(variable.shape), value.tobytes()


def snapshot(model: Any) -> list[tuple[str, Any]]:
    """Give the bits of every variable."""
    return [(path, bits(v)) for path, v in variables(model)]


# --- the source ----------------------------------------------------------------------


def fingerprint(model: Any) -> dict[str, Any]:
    """Describe everything about a model, and about Keras, that copying must not change."""
    keras_names = global_state.get_global_attribute("object_name_uids") or {}
    print_: dict[str, Any] = {
        "keras names": dict(keras_names),
        "random": random.getstate(),
        "numpy.random": repr(np.random.get_state()),  # noqa: NPY002  the global state is the point
    }
    generator = global_state.get_global_attribute("global_seed_generator")
    if generator is not None:
        print_["keras.random"] = bits(generator.state)
    for path, op in operations(model):
        print_[path] = {
            "identity": id(op),
            "class": type(op),
            "name": op.name,
            "inbound": [id(n) for n in op._inbound_nodes],
            "outbound": [id(n) for n in op._outbound_nodes],
            "flags": {f: getattr(op, f, None) for f in ("trainable", "built", "_called")},
            "attributes": sorted(vars(op)),
            "functions": [id(getattr(op, f, None)) for f in MODEL_FUNCTIONS],
        }
    for path, variable in variables(model):
        print_[f"{path} (variable)"] = (id(variable), variable.trainable, bits(variable))
    return print_


def assert_untouched(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Compare two fingerprints of one model."""
    assert sorted(before) == sorted(after), (
        f"objects came or went: {sorted(set(before) ^ set(after))}"
    )
    for path, old in before.items():
        if isinstance(old, dict):
            changed = [
                key
                for key in old.keys() | after[path].keys()
                if old.get(key) != after[path].get(key)
            ]
            assert not changed, f"{path} changed in: {changed}"
        else:
            assert old == after[path], f"{path} changed"


# --- structure -----------------------------------------------------------------------


def pairs(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """Pair the operations of two models in the order of the walk."""
    ours, theirs = operations(a), operations(b)
    for (path, x), (other, y) in zip(ours, theirs, strict=False):
        assert path == other, f"the walks part: {path} ({x.name}) and {other} ({y.name})"
    assert len(ours) == len(theirs), (
        f"{len(ours)} and {len(theirs)} operations; the first without a partner: "
        f"{(ours + theirs)[min(len(ours), len(theirs))][0]}"
    )
    return [(path, x, y) for (path, x), (_, y) in zip(ours, theirs, strict=True)]


def tensor_spec(tensor: keras.KerasTensor) -> dict[str, Any]:
    """Describe a symbolic tensor by itself."""
    operation = tensor._keras_history.operation if hasattr(tensor, "_keras_history") else None
    return {
        "shape": tuple(tensor.shape),
        "dtype": str(tensor.dtype),
        "sparse": tensor.sparse,
        "ragged": getattr(tensor, "ragged", False),
        "name": tensor.name,
        "optional": getattr(operation, "optional", False),
    }


def describe(x: Any, refer: Callable[[keras.KerasTensor], Any]) -> Any:
    """Describe a structure, so that two are equal if they say the same."""
    if isinstance(x, keras.KerasTensor):
        return refer(x)
    if isinstance(x, keras.Variable):
        return ("variable", x.name, bits(x))
    if isinstance(x, dict):
        return (type(x), [(key, describe(value, refer)) for key, value in x.items()])
    if isinstance(x, (list, tuple)):
        return (type(x), [describe(value, refer) for value in x])
    if keras.ops.is_tensor(x) or isinstance(x, np.ndarray):
        value = np.asarray(keras.ops.convert_to_numpy(x))
        return (type(x), str(value.dtype), value.shape, value.tobytes())
    return (type(x), repr(x) if isinstance(x, (slice, float)) else x)


def wiring(function: keras.Function) -> list[tuple[str, Any]]:
    """Describe the nodes of a graph in order; tensors by the node and the output they are."""
    depths = sorted(function._nodes_by_depth, reverse=True)
    nodes = [node for depth in depths for node in function._nodes_by_depth[depth]]
    places = {id(t): ("input", i) for i, t in enumerate(function.inputs)}
    for i, node in enumerate(nodes):
        for output, tensor in enumerate(node.outputs):
            places.setdefault(id(tensor), ("node", i, output))

    def refer(tensor: keras.KerasTensor) -> Any:
        return places.get(id(tensor), ("outside", tuple(tensor.shape), str(tensor.dtype)))

    def masks(node: Node) -> list[Any]:
        found = [getattr(t, "_keras_mask", None) for t in node.outputs]
        return [None if mask is None else refer(mask) for mask in found]

    lines: list[tuple[str, Any]] = [
        ("the input structure", describe(function._inputs_struct, refer)),
        ("the output structure", describe(function._outputs_struct, refer)),
        ("the inputs", [tensor_spec(t) for t in function.inputs]),
        ("the outputs", [tensor_spec(t) for t in function.outputs]),
        ("the operations", [(type(op), op.name) for op in function._operations]),
        ("the depths", [(d, len(function._nodes_by_depth[d])) for d in depths]),
    ]
    for i, node in enumerate(nodes):
        where = f"node {i} ({node.operation.name})"
        lines += [
            (f"the operation of {where}", (node.operation.name, type(node.operation))),
            (f"the arguments of {where}", describe(node.arguments.args, refer)),
            (f"the keywords of {where}", describe(node.arguments.kwargs, refer)),
            (f"the shapes of {where}", [(tuple(t.shape), str(t.dtype)) for t in node.outputs]),
            (f"the masks of {where}", masks(node)),
        ]
    return lines


def attempt(do: Callable[[], Any]) -> tuple[Any, type[BaseException] | None]:
    """Do something; give its result, or the class of what it raised."""
    try:
        return do(), None
    except Exception as error:  # noqa: BLE001  both models have to fail alike, however they fail
        return None, type(error)


def config_of(model: Any) -> str:
    """Serialize a model to comparable text; the ids of shared objects become their order."""
    return normal(keras.saving.serialize_keras_object(model))


def normal(config: Any) -> str:
    """Turn a config into text in which object ids are replaced by their order of appearance."""
    order: dict[Any, int] = {}

    def clean(x: Any) -> Any:
        if isinstance(x, dict):
            return {
                str(k): order.setdefault(v, len(order)) if k == "shared_object_id" else clean(v)
                for k, v in x.items()
            }
        if isinstance(x, (list, tuple)):
            return [clean(v) for v in x]
        return x

    return json.dumps(clean(config), indent=1, default=lambda x: f"<{type(x).__name__}>")


def first_difference(a: str, b: str) -> str:
    """Show the first lines in which two texts differ."""
    for i, (x, y) in enumerate(itertools.zip_longest(a.splitlines(), b.splitlines())):
        if x != y:
            return f"line {i}: {x!r} is {y!r} in the other"
    return "no difference"


def assert_same_attributes(path: str, x: Any, y: Any) -> None:
    """Two operations have equal flags, and public attributes of the same names and types."""
    for flag in (
        "name",
        "path",
        "trainable",
        "built",
        "supports_masking",
        "dtype",
        "compute_dtype",
    ):
        ours, theirs = getattr(x, flag, None), getattr(y, flag, None)
        assert ours == theirs, f"{path}.{flag} is {ours!r} and {theirs!r}"
    ours, theirs = (
        {n: type(v) for n, v in vars(op).items() if n[0] != "_" and n not in MODEL_FUNCTIONS}
        for op in (x, y)
    )
    gone, added = sorted(ours.keys() - theirs.keys()), sorted(theirs.keys() - ours.keys())
    assert not gone, f"the twin of {path} lacks attributes: {gone}"
    assert not added, f"the twin of {path} has other attributes too: {added}"
    for name, kind in ours.items():
        assert kind is theirs[name], f"{path}.{name} is a {kind} and a {theirs[name]}"


def assert_same_wiring(path: str, x: Any, y: Any) -> None:
    """Two graphs have equal inputs, outputs, nodes and masks."""
    lines, others = wiring(x), wiring(y)
    for (what, ours), (_, theirs) in zip(lines, others, strict=False):
        assert ours == theirs, f"{path}: {what} differ:\n  {ours}\n  {theirs}"
    assert len(lines) == len(others), f"{path}: the numbers of nodes differ"


def assert_same_structure(a: Any, b: Any) -> None:
    """Classes, names, flags, specs, wiring, masks, configs and attributes are the same."""
    for path, x, y in pairs(a, b):
        assert type(x) is type(y), f"{path} is a {type(x)} and a {type(y)}"
        assert_same_attributes(path, x, y)
        if isinstance(x, keras.Function):
            assert_same_wiring(path, x, y)
    for path, x in walk(b):
        if isinstance(x, enum.Enum):  # compared by identity, so a copy equals nothing
            assert any(x is member for member in type(x)), f"{path} is a copy of {x}"
    for v, w in zip(a.variables, b.variables, strict=True):
        for flag in ("name", "path", "trainable", "dtype", "shape"):
            ours, theirs = getattr(v, flag), getattr(w, flag)
            assert ours == theirs, f"{v.path}: {flag} is {ours!r} and {theirs!r}"
    (ours, error), (theirs, other) = attempt(lambda: config_of(a)), attempt(lambda: config_of(b))
    assert error is other, f"serializing raises {error} and {other}"
    assert ours == theirs, f"the configs differ: {first_difference(ours or '', theirs or '')}"


# --- state and sharing ---------------------------------------------------------------


def assert_same_snapshot(before: list[tuple[str, Any]], after: list[tuple[str, Any]]) -> None:
    """Compare two snapshots of variables."""
    for (path, ours), (other, theirs) in zip(before, after, strict=False):
        assert path == other, f"the variables part: {path} and {other}"
        assert ours[:2] == theirs[:2], f"{path} is {ours[:2]} and {theirs[:2]}"
        assert ours == theirs, f"{path} has other values"
    assert len(before) == len(after), f"{len(before)} and {len(after)} variables"


def assert_same_state(a: Any, b: Any) -> None:
    """Every variable has the same bits, in the same place; both are compiled alike."""
    assert_same_snapshot(snapshot(a), snapshot(b))
    for kind in (
        "variables",
        "trainable_variables",
        "non_trainable_variables",
        "metrics_variables",
    ):
        ours = [(v.name, bits(v)) for v in getattr(a, kind)]
        theirs = [(v.name, bits(v)) for v in getattr(b, kind)]
        assert ours == theirs, f"model.{kind} differ: {len(ours)} and {len(theirs)}"
    assert a.compiled == b.compiled, f"compiled is {a.compiled} and {b.compiled}"
    (ours, error), (theirs, other) = (
        attempt(lambda m=m: normal(m.get_compile_config())) for m in (a, b)
    )
    assert error is other, f"get_compile_config raises {error} and {other}"
    assert ours == theirs, f"compiled otherwise: {first_difference(ours or '', theirs or '')}"
    if getattr(a, "optimizer", None) is not None:
        assert type(a.optimizer) is type(b.optimizer), "the optimizers are of different classes"
        ours, theirs = ([(v.path, bits(v)) for v in m.optimizer.variables] for m in (a, b))
        assert ours == theirs, "the optimizers' variables differ"


def occurrences(model: Any) -> list[tuple[str, str]]:
    """Say, for every place that holds a layer, variable, ..., where that object was met first."""
    first: dict[int, str] = {}
    return [
        (path, first.setdefault(id(x), path))
        for path, x in walk(model)
        if is_stateful(x) and not isinstance(x, Tracker)
    ]


def assert_same_sharing(a: Any, b: Any) -> None:
    """Two places hold one object in one model exactly if they do in the other."""
    ours, theirs = occurrences(a), occurrences(b)
    for (path, first), (other, other_first) in zip(ours, theirs, strict=False):
        assert path == other, f"the walks part: {path} and {other}"
        assert first == other_first, (
            f"{path} is the object at {first}, but in the twin the one at {other_first}"
        )
    assert len(ours) == len(theirs), f"{len(ours)} and {len(theirs)} places"


def address(x: Any) -> Any:
    """Give what is equal for two views of one buffer; None for what is not a buffer."""
    if not keras.ops.is_tensor(x) or isinstance(x, (keras.KerasTensor, keras.Variable)):
        return None
    if hasattr(x, "data_ptr"):
        return x.data_ptr() or None
    if hasattr(x, "unsafe_buffer_pointer"):
        # What a finished `fit` gave away on JAX has no buffer any more.
        return None if x.is_deleted() else x.unsafe_buffer_pointer()
    return id(x)


def stateful_objects(
    model: Any,
) -> tuple[dict[int, str], dict[Any, str], dict[Any, str]]:
    """Find objects by id, and the buffers of variables and of everything, by address."""
    found, owned, buffers = {}, {}, {}
    for path, x in walk(model, internals=True):
        if is_stateful(x):
            found.setdefault(id(x), f"{path} ({type(x).__name__})")
        if isinstance(x, keras.Variable):
            owned.setdefault(address(x.value) or id(x.value), path)
        elif (place := address(x)) is not None:
            buffers.setdefault(place, path)
    return found, owned, buffers


def assert_disjoint(a: Any, b: Any) -> None:
    """No object with state, and no buffer that can change, is part of both."""
    (ours, our_values, our_buffers), (theirs, their_values, their_buffers) = (
        stateful_objects(m) for m in (a, b)
    )
    common = [f"{ours[key]} is {theirs[key]}" for key in ours if key in theirs]
    assert not common, f"{len(common)} objects in common, the first: {common[0]}"
    # A constant of JAX and TensorFlow cannot change, so two models may both refer to it.
    mutable = keras.backend.backend() == "torch"
    for mine, other in (
        (our_values, their_values),
        (our_values, their_buffers),
        (our_buffers, their_values),
        *([(our_buffers, their_buffers)] if mutable else []),
    ):
        shared = [f"{mine[key]} and {other[key]}" for key in mine if key in other]
        assert not shared, f"{len(shared)} buffers in common, the first: {shared[0]}"
    for name in MODEL_FUNCTIONS:
        function = getattr(a, name, None)
        assert function is None or function is not getattr(b, name, None), f"one {name} for both"


# --- behaviour -----------------------------------------------------------------------


def as_tensors(x: Any) -> Any:
    """Convert scipy matrices to the backend's sparse tensors; leave all else to Keras."""
    if not hasattr(x, "tocoo"):
        return x
    coo = x.tocoo()
    if keras.backend.backend() == "jax":
        from jax.experimental.sparse import BCOO

        return BCOO((coo.data, np.stack([coo.row, coo.col], axis=1)), shape=coo.shape)
    import tensorflow as tf

    rows = np.stack([coo.row, coo.col], axis=1).astype("int64")
    return tf.sparse.reorder(tf.SparseTensor(rows, coo.data, coo.shape))


def reset_chance() -> None:
    """Give the backend's global generator one state: PyTorch draws dropout masks from it."""
    keras.utils.set_random_seed(5)


def outputs_of(model: Any, x: Any, *, training: bool) -> list[np.ndarray]:
    """Call the model without compiling anything; give its outputs flat."""
    reset_chance()
    outputs = model(as_tensors(x), training=training)
    return [np.array(keras.ops.convert_to_numpy(y)) for y in keras.tree.flatten(outputs)]


def assert_equal_arrays(ours: Any, theirs: Any, what: str) -> None:
    """Two structures of arrays are equal bit by bit, where NaN equals NaN."""
    ours, theirs = keras.tree.flatten(ours), keras.tree.flatten(theirs)
    assert len(ours) == len(theirs), f"{what}: {len(ours)} and {len(theirs)} outputs"
    for i, (p, q) in enumerate(zip(ours, theirs, strict=True)):
        p, q = np.asarray(p), np.asarray(q)  # noqa: PLW2901  the arrays are all that is needed
        assert p.dtype == q.dtype, f"{what}, output {i}: {p.dtype} and {q.dtype}"
        numeric = p.dtype.kind not in "OSU"
        wide = p.astype("float64") if p.dtype.kind == "V" else p
        other = q.astype("float64") if q.dtype.kind == "V" else q
        assert np.array_equal(wide, other, equal_nan=numeric), f"{what}, output {i}: other numbers"


def assert_same_inference(a: Any, b: Any, x: Any) -> None:
    """Equal outputs of a call, also where the models share state that a call changes."""
    before = [(v, np.array(keras.ops.convert_to_numpy(v.value))) for _, v in variables(a)]
    ours = outputs_of(a, x, training=False)
    for variable, value in before:
        variable.assign(value)
    assert_equal_arrays(ours, outputs_of(b, x, training=False), "inference")


def assert_same_outputs(a: Any, b: Any, x: Any) -> None:
    """Equal outputs of a call, a call in training mode, and `predict`; equal state afterwards."""
    assert_equal_arrays(
        outputs_of(a, x, training=False), outputs_of(b, x, training=False), "inference"
    )
    # A second round shows whether the seeds and statistics advance alike.
    for turn in ("first", "second"):
        what = f"{turn} call in training mode"
        assert_equal_arrays(outputs_of(a, x, training=True), outputs_of(b, x, training=True), what)
    assert_same_snapshot(snapshot(a), snapshot(b))
    if keras.backend.backend() == "tensorflow" and not a.compiled:
        a.run_eagerly = b.run_eagerly = True  # tracing each model again only costs time
    assert_equal_arrays(predict(a, x), predict(b, x), "predict")


def predict(model: Any, x: Any) -> Any:
    """Predict one batch; what is not compiled needs no pipeline of data either."""
    if model.run_eagerly:
        return model.predict_on_batch(as_tensors(x))
    return model.predict(x, batch_size=4, verbose=0)


def prepare(model: Any) -> None:
    """Compile a model that is not compiled, the same way each time."""
    if not model.compiled:
        # On JAX, `fit` as users run it gives buffers away; on the others, tracing only costs time.
        eager = keras.backend.backend() == "tensorflow"
        model.compile(keras.optimizers.Adam(0.01, name="adam"), loss="mse", run_eagerly=eager)


def fit_once(model: Any, x: Any, y: Any) -> dict[str, Any]:
    """Train one step on one batch; give the logs."""
    reset_chance()
    if model.run_eagerly:  # On TensorFlow, a pipeline of data takes five times as long as the step.
        return model.train_on_batch(as_tensors(x), y, return_dict=True)
    return model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0).history


def assert_same_training(a: Any, b: Any, x: Any, y: Any) -> None:
    """One training step gives the same losses, weights, slots and seeds, each model on its own."""
    prepare(a)
    prepare(b)
    ours, theirs = train_apart(a, b, x, y), train_apart(b, a, x, y)
    assert ours.keys() == theirs.keys(), f"the logs are {sorted(ours)} and {sorted(theirs)}"
    for key in ours:
        assert_equal_arrays(ours[key], theirs[key], f"{key} of the training step")
    assert_same_snapshot(snapshot(a), snapshot(b))
    if getattr(a, "optimizer", None) is not None:
        slots = [[(v.path, bits(v)) for v in m.optimizer.variables] for m in (a, b)]
        assert slots[0] == slots[1], "the optimizers' variables differ after a training step"
    # On JAX, `fit` gives buffers away: both must still have theirs.
    ours, theirs = (outputs_of(m, x, training=False) for m in (a, b))
    assert_equal_arrays(ours, theirs, "inference after a training step")


def train_apart(model: Any, other: Any, x: Any, y: Any) -> dict[str, Any]:
    """Train one step; give the logs. The other model stays as it was."""
    before = snapshot(other)
    logs = fit_once(model, x, y)
    assert_same_snapshot(before, snapshot(other))
    return logs


def disturb(model: Any) -> None:
    """Change every variable that holds real numbers."""
    for _, variable in variables(model):
        if keras.backend.is_float_dtype(variable.dtype):
            value = keras.ops.convert_to_numpy(variable.value)
            variable.assign((value * 0.5 + 0.25).astype(value.dtype))


def assert_independent(a: Any, b: Any, x: Any, y: Any = None) -> None:
    """Changing and training one leaves the other as it was, and able to work."""
    for one, other in ((a, b), (b, a)):
        before = snapshot(other)
        disturb(one)
        assert_same_snapshot(before, snapshot(other))
    if y is None:
        return
    for one, other in ((a, b), (b, a)):
        prepare(one)
        train_apart(one, other, x, y)
        outputs_of(other, x, training=False)


# --- files ---------------------------------------------------------------------------


def archived_config(path: Path) -> str:
    """Read the comparable config of a `.keras` file."""
    with zipfile.ZipFile(path) as archive:
        return normal(json.loads(archive.read("config.json")))


def assert_same_after_saving(a: Any, b: Any, tmp_path: Path, case: Any) -> None:
    """Both can be saved, or neither; the files and the loaded models are the same."""

    def save(model: Any, name: str) -> Path:
        model.save(tmp_path / name)
        return tmp_path / name

    def load(path: Path) -> Any:
        # What a file does not restore is drawn anew; the same draw makes it comparable.
        keras.utils.set_random_seed(99)
        objects_ = dict(case.custom_objects)
        return keras.saving.load_model(path, custom_objects=objects_, safe_mode=False)

    (ours, error), (theirs, other) = (
        attempt(lambda m=m, n=n: save(m, n)) for m, n in ((a, "a.keras"), (b, "b.keras"))
    )
    assert error is other, f"saving raises {error} and {other}"
    if error is not None:
        assert not case.saveable, f"{case.name} should be saveable, but saving raises {error}"
        return
    configs = archived_config(ours), archived_config(theirs)
    assert configs[0] == configs[1], f"the saved configs differ: {first_difference(*configs)}"
    (first, error), (second, other) = attempt(lambda: load(ours)), attempt(lambda: load(theirs))
    assert error is other, f"loading raises {error} and {other}"
    if error is not None:
        assert not case.saveable, f"{case.name} should be saveable, but loading raises {error}"
        return
    # Not the paths: Keras numbers seed generators anew whenever it loads a model.
    states = [[(v.name, bits(v)) for v in m.variables] for m in (first, second)]
    assert states[0] == states[1], "the loaded models have different variables"
    x = case.inputs(np.random.default_rng(0))
    ours, theirs = (outputs_of(m, x, training=False) for m in (first, second))
    assert_equal_arrays(ours, theirs, "loaded")
