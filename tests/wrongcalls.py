"""Every public name, with right arguments for each of its parameters, and wrong values.

A walk replaces one argument at a time by every wrong value. A public name without an entry here
is an error, so that new ones are walked too.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import keras
import numpy as np
from keras import layers

import ramet
from ramet import adapt, compress, files, results
from ramet import graph as graphs


def subject() -> keras.Model:
    """A model with a mask, a shared layer and a nested model."""
    x = keras.Input((6, 4), name="x")
    encoder = keras.Model(x, layers.Dense(4, name="inner")(x), name="encoder")
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    y = encoder(layers.Embedding(9, 4, mask_zero=True, name="embedding")(tokens))
    shared = layers.Dense(4, name="shared")
    y = layers.Add(name="sum")([shared(y), shared(shared(y))])
    y = layers.Dense(4, name="other")(y)
    y = layers.GlobalAveragePooling1D(name="pool")(y)
    return keras.Model(tokens, {"out": layers.Dense(2, name="head")(y)}, name="subject")


def small(name: str) -> keras.Model:
    """A model with one Dense layer."""
    x = keras.Input((4,), name=f"{name}_input")
    return keras.Model(x, layers.Dense(4, name=f"{name}_dense")(x), name=name)


@dataclass
class Hands:
    """What right arguments are made of."""

    folder: Path
    model: keras.Model = field(default_factory=subject)
    first: keras.Model = field(default_factory=lambda: small("first"))
    second: keras.Model = field(default_factory=lambda: small("second"))

    def __post_init__(self) -> None:
        """Trace the model, and save one."""
        self.graph = ramet.trace(self.model)
        self.adapted = ramet.adapt.lora(self.first, "first_dense", rank=1, name="fr").build()
        self.selection = self.graph.select(name="shared")
        self.adapter = self.folder / "fr.safetensors"
        ramet.adapt.save(self.adapted, self.adapter)
        self.enabled = ramet.clone(self.first)
        self.enabled.get_layer("first_dense").enable_lora(1)
        self.data = np.array([[1, 2, 3, 0, 0, 0]], "int32")
        self.file = self.folder / "first.keras"
        self.first.save(self.file)
        self.source = self.folder / "new.txt"
        call = self.graph.calls["head"]
        self.call, self.layer = call, self.graph.layers["head"]

    def new_file(self, suffix: str) -> Path:
        """Return the path of a file that does not exist."""
        path = self.folder / f"new{suffix}"
        path.unlink(missing_ok=True)
        return path


def deep(levels: int = 3000) -> list[Any]:
    """Return a list in a list in a list, and so on."""
    tree: list[Any] = []
    for _ in range(levels):
        tree = [tree]
    return tree


def endless() -> list[Any]:
    """Return a list that contains itself."""
    tree: list[Any] = []
    tree.append(tree)
    return tree


class Unprintable:
    """An object whose `repr` fails."""

    def __repr__(self) -> str:
        raise ValueError("no repr")


class Failing:
    """An object whose attributes, length, items and truth fail."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no attributes")

    def _fail(self) -> Any:
        raise RuntimeError("nothing")

    __bool__ = __len__ = __iter__ = _fail


class Text(str):
    """A string of a class of its own."""

    __slots__ = ()


class OddPath:
    """A path that is a number."""

    def __fspath__(self) -> Any:
        return 3


class OddSignature:
    """Something that can be called, and does not say with what."""

    __signature__ = 3

    def __call__(self, *_: Any) -> None:
        """Return nothing."""


def in_itself() -> dict[str, Any]:
    """Return a dict that contains itself."""
    tree: dict[str, Any] = {}
    tree["a"] = tree
    return tree


def deleted() -> Any:
    """Return an array of the backend; on JAX, its memory is gone."""
    array = keras.ops.ones((1, 6))
    if keras.backend.backend() == "jax":
        array.delete()
    return array


WRONG: dict[str, Callable[[Hands], Any]] = {
    "None": lambda _: None,
    "True": lambda _: True,
    "zero": lambda _: 0,
    "minus_one": lambda _: -1,
    "astronomic": lambda _: 10**30,
    "too_long_to_print": lambda _: 10**5000,
    "fraction": lambda _: 1.5,
    "nan": lambda _: float("nan"),
    "complex": lambda _: 1j,
    "empty_text": lambda _: "",
    "unknown": lambda _: "no such",
    "path": lambda _: "a/b",
    "dots": lambda _: "../..",
    "star": lambda _: "*",
    "bracket": lambda _: "[",
    "bytes": lambda _: b"x",
    "null_character": lambda _: "a\0b",
    "huge_text": lambda _: "x" * 100_000,
    "empty_list": lambda _: [],
    "list_of_None": lambda _: [None],
    "empty_dict": lambda _: {},
    "odd_dict": lambda _: {1: "a", "b": 2},
    "empty_tuple": lambda _: (),
    "pair": lambda _: (0, "x"),
    "set": lambda _: {"head"},
    "object": lambda _: object(),
    "unprintable": lambda _: Unprintable(),
    "layer": lambda _: layers.Dense(3),
    "used_layer": lambda hands: hands.model.get_layer("head"),
    "class": lambda _: layers.Dense,
    "plain_class": lambda _: object,
    "function": lambda _: lambda *_, **__: object(),
    "no_parameters": lambda _: lambda: None,
    "model": lambda hands: hands.first,
    "unbuilt": lambda _: keras.Sequential([layers.Dense(2)]),
    "graph": lambda hands: hands.graph,
    "selection": lambda hands: hands.selection,
    "other_selection": lambda hands: ramet.trace(hands.first).select(name="first_dense"),
    "ref": lambda _: graphs.Ref("head"),
    "odd_ref": lambda _: graphs.Ref("head", 10**30),
    "symbolic": lambda hands: hands.model.input,
    "array": lambda _: np.arange(6.0),
    "array_of_objects": lambda _: np.array([object()]),
    "deep_list": lambda _: deep(),
    "endless_list": lambda _: endless(),
    "generator": lambda _: (number for number in range(3)),
    "module": lambda _: keras,
    "failing": lambda _: Failing(),
    "any_attribute": lambda _: Mock(),
    "text_of_a_class": lambda _: Text("no such"),
    "surrogate": lambda _: "\ud800",
    "number_of_numpy": lambda _: np.int64(2),
    "record_of_numpy": lambda _: np.zeros(2, [("a", "i4")]),
    "endless_dict": lambda _: in_itself(),
    "odd_keys": lambda _: {None: 1, (1, 2): 2, float("nan"): 3, "": 4},
    "long_range": lambda _: range(10**12),
    "odd_path": lambda _: OddPath(),
    "odd_signature": lambda _: OddSignature(),
    "plain_type": lambda _: int,
    "not_constructed": lambda _: layers.Dense.__new__(layers.Dense),
    "model_not_constructed": lambda _: keras.Model.__new__(keras.Model),
    "other_symbolic": lambda _: keras.Input((4,)),
    "deleted_array": lambda _: deleted(),
}
"""Values that are wrong for nearly every parameter; where one is right, it is accepted."""

Right = Mapping[str, Any]
"""Arguments by the names of parameters; `*` for more positional ones, `**` for keywords."""


def _report(hands: Hands) -> ramet.results.Report:
    return ramet.verify(hands.first, hands.first, only="structure")


def _explained(hands: Hands) -> ramet.results.Explanation:
    return ramet.rewrite(hands.model, lambda x: layers.Dense(2)(x), lambda x: x, explain=True)


VERBS: dict[str, Callable[[Hands], Right]] = {
    "any_layer": lambda _: {"kind": layers.Dense, "name": "d", "**": {"units": 2}},
    "chain": lambda h: {"*": (h.first,), "name": "chained"},
    "clone": lambda h: {"model": h.model, "weights": "fresh", "seed": 1, "name": "twin"},
    "clone_model": lambda h: {
        "model": h.first,
        "input_tensors": None,
        "clone_function": lambda layer: type(layer).from_config(layer.get_config()),
        "call_function": lambda layer, *args, **kwargs: layer(*args, **kwargs),
        "recursive": False,
    },
    "clones": lambda h: {"model": h.first, "n": 1, "weights": "fresh", "seed": 1},
    "diff": lambda h: {"first": h.first, "second": h.second, "weights": True},
    "emit": lambda h: {"model": h.first, "names": "given", "check": False},
    "masks": lambda h: {"model": h.model},
    "merge": lambda h: {
        "models": [h.first, h.second],
        "inputs": "separate",
        "outputs": ["first", "second"],
        "name": "merged",
    },
    "profile": lambda h: {"model": h.model, "batch": 2, "time": False, "shapes": (6,)},
    "prove": lambda h: {"graph": h.graph, "data": None, "rtol": None, "seed": 1},
    "rewrite": lambda h: {
        "model": h.model,
        "pattern": lambda x: layers.Dense(2)(x),
        "replacement": lambda x: layers.Dense(3)(x),
        "explain": False,
        "missing_ok": False,
    },
    "run": lambda h: {
        "model": h.model,
        "data": h.data,
        "at": "pool",
        "each": lambda place, outputs: None,  # noqa: ARG005 its parameters are counted
        "training": False,
    },
    "show": lambda h: {"model": h.first, "other": None, "to": h.new_file(".svg"), "cost": "macs"},
    "trace": lambda h: {"model": h.model},
    "verify": lambda h: {
        "first": h.first,
        "second": h.second,
        "only": "structure",
        "inputs": None,
        "seed": 1,
        "rtol": 0.0,
        "atol": 0.0,
    },
}

COMPRESS: dict[str, Callable[[Hands], Right]] = {
    "channel_rule": lambda _: {"kind": Plain},
    "factorizable": lambda h: {
        "model": h.model,
        "at": "head",
        "rank": 1,
        "energy": None,
        "params": None,
    },
    "factorize": lambda h: {
        "model": h.model,
        "at": "head",
        "rank": None,
        "energy": 0.9,
        "params": None,
    },
    "fold": lambda h: {"model": h.model, "inference_only": True},
    "foldable": lambda h: {"model": h.model, "inference_only": True},
    "deepen": lambda h: {"model": h.model, "at": "other", "new": [layers.Dense(4)]},
    "groups": lambda h: {"model": h.model},
    "prune": lambda h: {
        "model": h.model,
        "ratio": 0.5,
        "macs": None,
        "params": None,
        "by": "l2",
        "scope": "local",
        "keep": (),
        "only": (),
        "round_to": 1,
        "max_ratio": 1.0,
        "data": None,
        "loss": None,
        "steps": 1,
        "seed": 0,
    },
    "widen": lambda h: {"model": h.model, "at": "other", "size": 99, "method": "zeros"},
    "prune_channels": lambda h: {"model": h.model, "channels": {"head": []}},
}

ADAPT: dict[str, Callable[[Hands], Right]] = {
    "sensitivity": lambda h: {
        "model": h.first,
        "data": np.ones((1, 4), "float32"),
        "how": ["int8"],
        "at": "first_dense",
    },
    "taps": lambda h: {
        "teacher": h.first,
        "student": h.second,
        "pairs": {"first_dense": "second_dense"},
        "project": True,
        "losses": "mse",
        "weights": [1.0],
        "name": "both",
    },
    "cast": lambda h: {
        "model": h.model,
        "at": "head",
        "dtype": "bfloat16",
        "keep": "shared",
        "explain": True,
        "data": h.data,
    },
    "quantize": lambda h: {
        "model": h.model,
        "at": {"*": "gptq"},
        "skip": "head",
        "data": h.data,
        "explain": False,
    },
    "adopt": lambda h: {"model": h.enabled, "name": "fr", "revive": True, "seed": 1},
    "load": lambda h: {
        "model": h.first,
        "path": h.adapter,
        "name": "de",
        "check": True,
        "names": {"a": "b"},
    },
    "save": lambda h: {
        "model": h.adapted,
        "path": h.new_file(".safetensors"),
        "name": "fr",
        "format": "ramet",
        "force": True,
    },
    "lora": lambda h: {
        "model": h.model,
        "at": "head",
        "rank": 1,
        "alpha": 2.0,
        "name": "de",
        "variant": "dora",
        "init": "normal",
        "train_also": "other",
        "seed": 1,
    },
    "merge": lambda h: {"model": h.adapted, "adapters": "fr", "requantize": True},
    "remove": lambda h: {"model": h.adapted},
    "unmerge": lambda h: {"merged_model": h.first, "adapted": h.adapted},
    "use": lambda h: {"model": h.adapted, "adapters": {"fr": 0.5}},
}

FILES: dict[str, Callable[[Hands], Right]] = {
    "check_target": lambda h: {
        "path": h.new_file(".txt"),
        "suffixes": (".txt",),
        "force": True,
        "sources": (),
    },
    "load": lambda h: {"path": h.file, "trust": False, "custom_objects": {}},
    "save": lambda h: {
        "model": h.first,
        "path": h.new_file(".keras"),
        "force": True,
        "sources": (),
    },
    "save_text": lambda h: {"text": "x", "path": h.new_file(".txt"), "force": True, "sources": ()},
}

EDITS: dict[str, Callable[[Hands], Right]] = {
    "add_output": lambda _: {"at": "sum", "name": "more"},
    "build": lambda _: {"weights": "fresh", "seed": 1, "name": "built"},
    "changed": lambda _: {"**": {"name": "other"}},
    "configure": lambda _: {"at": "head", "weights": "grow", "**": {"units": 3}},
    "extract": lambda _: {"inputs": "sum", "outputs": "head"},
    "flatten": lambda _: {"at": "encoder"},
    "freeze": lambda _: {"at": "head"},
    "insert_after": lambda _: {"at": "sum", "new": layers.ReLU(name="new")},
    "insert_before": lambda _: {"at": "pool", "new": layers.ReLU(name="new")},
    "insert_on": lambda _: {"at": "sum", "argument": 1, "new": layers.ReLU(name="new")},
    "live_origin": lambda _: {},
    "parts": lambda _: {"which": "layers"},
    "prefix": lambda _: {"text": "p_"},
    "prune_unused": lambda _: {},
    "remove": lambda _: {"at": "sum", "reconnect": "shared#2"},
    "rename": lambda _: {"names": {"head": "tail"}},
    "replace": lambda _: {"at": "head", "new": layers.Dense(2, name="new"), "weights": "fit"},
    "rewire": lambda _: {"at": "sum", "argument": 1, "tensor": "shared#2"},
    "select": lambda _: {
        "kind": layers.Dense,
        "name": "*",
        "regex": "e",
        "where": lambda layer: bool(layer.weights),
        "missing_ok": True,
    },
    "share": lambda _: {"first": "shared", "*": ("other",), "config": "same"},
    "split": lambda _: {"at": "sum"},
    "stages": lambda _: {"n": 2, "by": "macs", "shapes": None},
    "text": lambda _: {"derived": True},
    "transfer_report": lambda _: {"weights": "copy"},
    "unfreeze": lambda _: {"at": "head"},
    "unshare": lambda _: {"at": "shared"},
    "walk": lambda _: {},
    "with_inputs": lambda _: {"inputs": None, "**": {"shape": (6,)}},
}

SELECTED: dict[str, Callable[[Hands], Right]] = {
    "__and__": lambda h: {"other": h.selection},
    "__contains__": lambda _: {"path": "shared"},
    "__getitem__": lambda _: {"index": 0},
    "__or__": lambda h: {"other": h.selection},
    "__sub__": lambda h: {"other": h.selection},
    "calls": lambda _: {},
    "configure": lambda _: {"weights": "grow", "**": {"units": 3}},
    "freeze": lambda _: {},
    "insert_after": lambda _: {"new": lambda _: layers.ReLU()},
    "insert_before": lambda _: {"new": lambda _: layers.ReLU()},
    "layers": lambda _: {},
    "need": lambda _: {},
    "one": lambda _: {},
    "remove": lambda _: {},
    "replace": lambda _: {"new": lambda _: layers.Dense(2), "weights": "fit"},
    "unfreeze": lambda _: {},
    "unshare": lambda _: {},
}


class Plain(layers.Layer):
    """A layer of a user, without a rule."""


RECORDS: dict[str, Callable[[Hands], Right]] = {
    "Call": lambda _: {
        "name": "c",
        "layer": "l",
        "args": (graphs.Ref("x"),),
        "kwargs": {},
        "outputs": (graphs.Spec((2,), "float32", "c"),),
        "derived": frozenset(),
    },
    "Edit": lambda _: {"text": "edit", "parts": (), "gist": None},
    "Graph": lambda h: {
        name: getattr(h.graph, name)
        for name in ("name", "layers", "calls", "inputs", "outputs", "origin", "journal")
    },
    "Journal": lambda _: {},
    "Layer": lambda _: {"name": "l", "kind": "Dense", "origin": None},
    "Ref": lambda _: {"call": "x", "index": 0},
    "Selection": lambda h: {
        "graph": h.graph,
        "paths": ("head",),
        "what": "name",
        "missing_ok": False,
    },
    "Spec": lambda _: {"shape": (None, 2), "dtype": "float32", "name": "x"},
}

RESULTS: dict[str, tuple[Callable[[Hands], Any], dict[str, Right]]] = {
    "Casting": (lambda h: adapt.cast(h.first, "*", "bfloat16", explain=True), {}),
    "Checkup": (lambda _: results.Checkup((results.Fact("keras", "3.15"),)), {}),
    "Diff": (lambda h: ramet.diff(h.first, h.second), {"of": {"kind": "config"}}),
    "Explanation": (_explained, {}),
    "Factorization": (lambda h: compress.factorizable(h.model, energy=0.9), {}),
    "Folding": (lambda h: compress.foldable(h.model), {}),
    "Groups": (lambda h: compress.groups(h.model), {}),
    "Journal": (lambda h: h.graph.freeze().journal, {"text": {"full": True}}),
    "MaskFlow": (
        lambda h: ramet.masks(h.model),
        {"table": {"every": True}, "text": {"every": True}},
    ),
    "Profile": (
        lambda h: ramet.profile(h.model),
        {
            "against": {"other": results.Profile("other", 1, (), 0)},
            "call": {"path": "head"},
            "table": {"depth": 1, "by": "macs", "every": True},
            "text": {"depth": 1, "by": "params", "every": False},
            "top": {"n": 3, "by": "memory"},
        },
    ),
    "ProfileComparison": (
        lambda h: ramet.profile(h.first).against(ramet.profile(h.second)),
        {"table": {"depth": 1, "every": True}, "text": {"depth": 0, "every": False}},
    ),
    "Proof": (
        lambda _: results.Proof("net", (), results.Proven((), "", "exact", "kept"), "", "0", {}),
        {"matches": {"model": small("first")}},
    ),
    "Quantization": (lambda h: adapt.quantize(h.first, {"*": "int8"}, explain=True), {}),
    "Report": (_report, {"check": {"name": "structure"}}),
    "Sensitivity": (
        lambda h: adapt.sensitivity(h.first, how=["int8"]),
        {"above": {"limit": 0.1, "how": "int8"}, "only": {"how": "int8"}},
    ),
    "Source": (lambda h: ramet.emit(h.first, check=False), {}),
    "TransferReport": (lambda h: h.graph.transfer_report(), {"of": {"status": "kept"}}),
}
"""How each result is made, and the arguments of those of its methods that take any."""

PLAIN = (
    *("CallCost", "CastLayer", "Check", "Divergence", "Entry", "Fact", "Factored"),
    *("Finding", "Fold", "LayerSensitivity", "Miss", "Proven"),
    *("QuantizedLayer", "TensorMask", "Transfer"),
    *("Group", "Member"),
)
"""Parts of results: data without methods that take arguments."""


def returning(value: Any) -> Callable[..., Any]:
    """Return a function that returns a value; not a layer in use, which would be used again."""
    kept = not (isinstance(value, keras.Layer) and getattr(value, "built", False))
    return lambda _: value if kept else None


INSIDE: dict[str, list[tuple[str, Callable[[Any], Any]]]] = {
    "adapt.cast": [("at", lambda v: [v]), ("keep", lambda v: ["head", v])],
    "adapt.sensitivity": [("how", lambda v: [v]), ("at", lambda v: [v])],
    "adapt.taps": [
        ("pairs", lambda v: {"first_dense": v}),
        ("pairs", lambda v: {v: "second_dense"} if isinstance(v, (str, int, float, type)) else v),
        ("losses", lambda v: [v]),
        ("weights", lambda v: [v]),
    ],
    "adapt.quantize": [
        ("at", lambda v: {"head": v}),
        ("at", lambda v: {v: "int8"} if isinstance(v, (str, int, float, type)) else v),
        ("skip", lambda v: [v]),
    ],
    "any_layer": [("kind", lambda v: (layers.Dense, v))],
    "chain": [("*", lambda v: v)],
    "compress.prune_channels": [
        ("channels", lambda v: {"shared": v}),
        ("channels", lambda v: {"shared": [v]}),
    ],
    "clone_model": [("input_tensors", lambda v: [v]), ("clone_function", returning)],
    "diff": [("second", lambda v: v)],
    "merge": [
        ("models", lambda v: [v]),
        ("outputs", lambda v: ["first", v]),
        ("outputs", lambda v: lambda _: v),
    ],
    "rewrite": [("pattern", lambda v: lambda _: v), ("replacement", lambda v: lambda _: v)],
    "run": [
        ("data", lambda v: [v]),
        ("data", lambda v: {"tokens": v}),
        ("at", lambda v: ["pool", v]),
        ("at", lambda v: {"a": v}),
        ("each", lambda v: lambda place, outputs: v),  # noqa: ARG005 its parameters are counted
    ],
    "profile": [("shapes", lambda v: (v,)), ("shapes", lambda v: {"tokens": v})],
    "files.load": [("custom_objects", lambda v: {"Dense": v})],
    "files.check_target": [("suffixes", lambda v: (v,))],
    "adapt.lora": [
        ("at", lambda v: [v]),
        ("at", lambda v: {"head": v}),
        ("train_also", lambda v: [v]),
    ],
    "adapt.merge": [("adapters", lambda v: [v]), ("adapters", lambda v: {"fr": v})],
    "adapt.use": [("adapters", lambda v: [v]), ("adapters", lambda v: {"fr": v})],
    "Graph.add_output": [("at", lambda v: graphs.Ref("no such") if v is None else v)],
    "Graph.configure": [
        ("**", lambda v: v),
        ("at", lambda v: f"encoder/{v}" if isinstance(v, str) else v),
    ],
    "Graph.extract": [
        ("inputs", lambda v: [v]),
        ("inputs", lambda v: {"a": v}),
        ("inputs", lambda v: {"no such": "sum", "a/b": v}),
        ("outputs", lambda v: [v]),
        ("outputs", lambda v: {"a": v}),
    ],
    "Graph.insert_after": [("new", lambda v: lambda _: v)],
    "Graph.insert_before": [("new", lambda v: lambda _: v)],
    "Graph.insert_on": [("new", lambda v: lambda _: v)],
    "Graph.remove": [("reconnect", lambda v: [v])],
    "Graph.rename": [
        ("names", lambda v: {"head": v}),
        ("names", lambda v: {v: "head"} if isinstance(v, (str, int, float, type)) else v),
    ],
    "Graph.replace": [
        ("at", lambda v: (v, "head")),
        ("at", lambda v: ("sum", v)),
        ("at", lambda v: ("sum", [v])),
        ("at", lambda v: (v, v, v)),
        ("new", lambda v: lambda _: v),
    ],
    "Graph.select": [("kind", lambda v: (layers.Dense, v)), ("where", lambda v: lambda _: v)],
    "Graph.split": [("at", lambda v: [v]), ("at", lambda v: {"a": v})],
    "Graph.with_inputs": [
        ("inputs", lambda v: {"tokens": v}),
        ("**", lambda v: (v,)),
        ("**", lambda v: (None, v)),
    ],
    "Selection.replace": [("new", lambda v: lambda _: v)],
    "Selection.insert_after": [("new", lambda v: lambda _: v)],
    "graph.Graph": [
        ("layers", lambda v: {"head": v}),
        ("calls", lambda v: {"head": v}),
        ("inputs", lambda v: [v]),
        ("outputs", lambda v: {"a": v}),
    ],
    "graph.Call": [("outputs", lambda v: (v,)), ("kwargs", lambda v: {"a": v})],
}
"""Wrong values inside of others: in a list, in a dict, returned by a function."""

OPTIONS = {
    "Graph.configure": (
        "trainable",
        "name",
        "dtype",
        "activation",
        "kernel_initializer",
        "no_such",
    ),
    "Graph.with_inputs": ("batch_size", "dtype", "sparse", "optional", "name", "no_such"),
    "Selection.configure": ("trainable", "name", "dtype", "activation", "no_such"),
    "any_layer": ("name", "activation", "no_such"),
}
"""Other keywords, each of which gets every wrong value."""


@dataclass(frozen=True)
class Target:
    """A function or method to call."""

    label: str
    call: Callable[[Hands], Callable[..., Any]]
    right: Callable[[Hands], Right]


def targets() -> Iterator[Target]:
    """Yield everything public."""
    for name in sorted({*ramet.__all__} - {"Graph", "RametError"}):
        yield Target(name, lambda _, name=name: getattr(ramet, name), VERBS[name])
    for name in compress.__all__:
        yield Target(f"compress.{name}", lambda _, n=name: getattr(compress, n), COMPRESS[name])
    for name in sorted(ADAPT):
        yield Target(f"adapt.{name}", lambda _, name=name: getattr(adapt, name), ADAPT[name])
    for name in files.__all__:
        yield Target(f"files.{name}", lambda _, name=name: getattr(files, name), FILES[name])
    for name in graphs.__all__:
        yield Target(f"graph.{name}", lambda _, name=name: getattr(graphs, name), RECORDS[name])
    for name in methods(graphs.Graph):
        yield Target(f"Graph.{name}", lambda h, name=name: getattr(h.graph, name), EDITS[name])
    for name in [*methods(graphs.Selection), *(one for one in SELECTED if "__" in one)]:
        yield Target(
            f"Selection.{name}", lambda h, name=name: getattr(h.selection, name), SELECTED[name]
        )
    for kind in ("Journal", *sorted({*results.__all__} - {*PLAIN})):
        make, rights = RESULTS[kind]
        for name in methods(getattr(results, kind, None) or graphs.Journal):
            right = rights.get(name, {})
            yield Target(
                f"{kind}.{name}",
                lambda h, name=name, make=make: getattr(make(h), name),
                lambda _, right=right: right,
            )


def methods(kind: type) -> list[str]:
    """List the public methods that a class has from ramet, not from `tuple` or `str`."""
    return [
        name
        for name, value in inspect.getmembers(kind, callable)
        if not name.startswith("_")
        and str(getattr(value, "__module__", "")).startswith("ramet.")
        and not (inspect.ismethod(value) and value.__self__ is kind)
    ]


def arguments(right: Right, parameter: str | None = None, value: Any = None) -> tuple[Any, Any]:
    """Return the arguments of a call, with one of them replaced."""
    named = {key: item for key, item in right.items() if key not in ("*", "**")}
    rest, more = tuple(right.get("*", ())), dict(right.get("**", {}))
    if parameter == "*":
        rest = (*rest[:-1], value)
    elif parameter == "**":
        more = dict.fromkeys(more, value)
    elif parameter is not None:
        named[parameter] = value
    if "*" not in right:
        return (), named | more
    leading = [named.pop(key) for key in [*named] if key in ("first", "at")]
    return (*leading, *rest), named | more
