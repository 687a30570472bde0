"""Graphs written by hand: checked, sorted, printed. No Keras needed."""

import ast
import copy
import dataclasses
import pickle
from collections import OrderedDict, defaultdict, namedtuple
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import ramet
from ramet import GraphError, RametError
from ramet.graph import Call, Graph, Layer, Ref, Spec
from ramet.graph.edits.apart import apart
from ramet.graph.interpret import CallLoop
from ramet.graph.names import counted, did_you_mean, unique_name
from ramet.graph.paths import call_paths, layer_paths
from ramet.graph.tree import leaves, map_tree

pytestmark = pytest.mark.backend_free

X = Spec((None, 3), "float32", "x")


def layer(name: str, graph: Graph | None = None) -> Layer:
    return Layer(name, name.capitalize(), object(), graph)


def call(name: str, *args, outputs=(X,), **kwargs) -> Call:
    return Call(name, name.partition("#")[0], args, kwargs, outputs)


def graph(*calls: Call, inputs=(), outputs=None) -> Graph:
    return Graph(
        name="net",
        layers={c.layer: layer(c.layer) for c in calls if c.layer is not None},
        calls={c.name: c for c in calls},
        inputs=inputs,
        outputs=[Ref(calls[-1].name)] if outputs is None else outputs,
    )


def with_layers(*layers: Layer) -> Graph:
    return Graph(
        name="net",
        layers={each.name: each for each in layers},
        calls={each.name: call(each.name) for each in layers},
        inputs=[],
        outputs=Ref(layers[-1].name),
    )


def test_calls_are_sorted_by_what_they_need():
    g = graph(call("c", Ref("b")), call("b", Ref("a")), call("a"), outputs=Ref("c"))
    assert list(g.calls) == ["a", "b", "c"]


def test_order_of_independent_calls_is_kept():
    calls = [call("x"), call("q", Ref("x")), call("p", Ref("x")), call("z", Ref("x"))]
    assert list(graph(*calls).calls) == ["x", "q", "p", "z"]


def test_a_call_comes_after_the_masks_of_its_arguments():
    masked = dataclasses.replace(X, mask=Ref("mask"))
    g = graph(
        call("x"),
        call("embedding", Ref("x"), outputs=(masked,)),
        call("lstm", Ref("embedding")),
        call("mask", Ref("x")),
        outputs=Ref("lstm"),
    )
    assert list(g.calls).index("mask") < list(g.calls).index("lstm")


def test_long_chains_are_sorted_without_recursion():
    names = [f"n{i}" for i in range(5000)]
    calls = [call(names[0])] + [call(b, Ref(a)) for a, b in pairwise(names)]
    assert list(graph(*reversed(calls), outputs=Ref(names[-1])).calls) == names


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: graph(call("a", Ref("b")), call("b", Ref("a"))),
            r"graph 'net' form a cycle: 'a' needs 'b' needs 'a'; rewire",
        ),
        (lambda: graph(call("a", Ref("a"))), "form a cycle: 'a' needs 'a'"),
        (
            lambda: graph(call("conv2_relu"), call("add", [Ref("conv2_reul")])),
            r"no call 'conv2_reul' in graph 'net' \(2 calls\), but .* call 'add' .*'conv2_relu'\?",
        ),
        (
            lambda: graph(call("a"), call("b", Ref("a", 1))),
            r"call 'a' has 1 output, but the argument of call 'b' in graph 'net' is its output 1",
        ),
        (lambda: graph(call("a"), outputs=[Ref("z")]), "no call 'z' .* the output of graph 'net'"),
        (lambda: graph(call("a"), inputs=Ref("z")), "no call 'z' .* the input of graph 'net'"),
        (lambda: graph(call("a"), outputs=[]), "graph 'net' has no outputs; name at least one"),
        (lambda: graph(call("a"), outputs=["a"]), "output of graph 'net' is a str; only a Ref"),
        (
            lambda: graph(call("a", outputs=(dataclasses.replace(X, mask=Ref("m")),))),
            "no call 'm' .* mask of call 'a'",
        ),
        (
            lambda: Graph("net", {}, {"a": call("a")}, (), Ref("a")),
            r"no layer 'a' in graph 'net' \(0 layers\), but call 'a' uses it",
        ),
        (
            lambda: Graph("net", {"a": layer("a")}, {"b": call("a")}, (), Ref("b")),
            "call 'a' is listed under 'b' in graph 'net'",
        ),
    ],
)
def test_what_does_not_hold_together_is_refused(make, message):
    with pytest.raises(GraphError, match=message) as caught:
        make()
    assert isinstance(caught.value, RametError)
    assert isinstance(caught.value, ValueError)


def test_a_graph_is_frozen():
    g = graph(call("a"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        g.name = "other"
    with pytest.raises(TypeError):
        g.calls["b"] = call("b")


def test_a_graph_written_by_hand_cannot_be_built():
    with pytest.raises(GraphError, match=r"graph 'net' was not traced .* ramet\.trace\(model\)"):
        graph(call("a")).build()


def test_text_reads_like_code():
    inner = Graph("encoder", {"h": layer("h")}, {"h": call("h")}, (), Ref("h"))
    two = (X, dataclasses.replace(X, dtype="int32", shape=(None, 5, 2)))
    g = Graph(
        name="net",
        layers={"x": layer("x"), "split": layer("split"), "encoder": layer("encoder", inner)},
        calls={
            "x": call("x"),
            "split": call("split", Ref("x"), outputs=two),
            "encoder": dataclasses.replace(
                call("encoder", [Ref("split"), Ref("split", 1)], axis=1, mask=None),
                derived=frozenset({"mask"}),
            ),
            "encoder#2": call("encoder#2", Ref("x"), key=(slice(None), slice(0, 2)), at=object()),
        },
        inputs=Ref("x"),
        outputs={"a": Ref("encoder"), "b": (Ref("encoder#2"),)},
    )
    assert str(g) == (
        "graph 'net': 3 layers, 4 calls\n"
        "  x: float32[None, 3]                        = X()\n"
        "  split: float32[None, 3], int32[None, 5, 2] = Split(x)\n"
        "  encoder: float32[None, 3]                  = Encoder([split.0, split.1], axis=1)\n"
        "  encoder#2: float32[None, 3]                = Encoder encoder(x, key=(:, 0:2), "
        "at=<object>)\n"
        "  return {a: encoder, b: (encoder#2,)}\n"
        "  graph 'encoder': 1 layer, 1 call\n"
        "    h: float32[None, 3] = H()\n"
        "    return h"
    )


def test_a_walk_visits_each_model_once_and_outer_ones_first():
    shared = layer("shared", graph(call("s")))
    around = [layer(name, with_layers(shared)) for name in ("right", "left")]
    outer = with_layers(*around, shared)
    visits = [*outer.walk()]
    assert [visit.prefix for visit in visits] == ["", "right/", "left/", "shared/"]
    assert visits[0].graph is outer
    assert visits[3].layer is shared


def test_a_walk_reaches_a_model_by_the_first_graph_that_has_it():
    shared = layer("shared", graph(call("s")))
    around = [layer(name, with_layers(shared)) for name in ("first", "second")]
    paths = [visit.path for visit in with_layers(*around).walk()]
    assert paths == [(), ("first",), ("second",), ("first", "shared")]


def test_no_nest_is_too_deep():
    nest = graph(call("innermost"))
    for _ in range(5000):
        nest = with_layers(layer("model", nest))
    assert len([*nest.walk()]) == 5001
    assert [path.count("/") for path, _ in layer_paths(nest)] == [*range(5001)]
    assert len([*call_paths(nest)]) == 5001
    assert apart(layer("model", nest)).apart
    assert nest.rename({"model": "other"}).layers.keys() == {"other"}


def nested(value=1.0) -> Graph:
    inner = layer("model", graph(call("h", [1, (2, np.arange(3))], at=slice(1, None), scale=value)))
    return with_layers(inner, layer("end"))


@pytest.mark.parametrize(
    "value", [1.0, float("nan"), "text", None, np.arange(6.0), np.array([np.nan, 1.0])]
)
def test_graphs_are_compared_by_content(value):
    again = value.copy() if isinstance(value, np.ndarray) else value
    assert nested(value) == nested(again)
    assert hash(nested(value)) == hash(nested(again))
    assert len({nested(value), nested(again)}) == 1


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (1, 2),
        (1, 1.0),
        (1, True),
        (np.arange(3), np.arange(1, 4)),
        (np.arange(3), np.arange(3).reshape(1, 3)),
        (np.arange(3), np.arange(3.0)),
        ([1], (1,)),
        ([1], [1, 1]),
        ({"a": 1}, {"b": 1}),
    ],
)
def test_graphs_with_other_constants_differ(value, other):
    assert nested(value) != nested(other)


def test_graphs_differ_in_names_layers_calls_ends_and_sharing():
    one = nested()
    assert one != dataclasses.replace(one, name="other")
    assert one != dataclasses.replace(one, outputs=Ref("model"))
    assert one != one.rename({"end": "last"})
    assert one != one.rename({"model/h": "g"})
    assert one == one.rename({"end": "last"}).rename({"last": "end"})
    assert one != one.freeze("end")
    assert one != with_layers(layer("model", graph(call("h"))), layer("end"))
    assert one != "net"
    shared = layer("a")
    both = [with_layers(shared, dataclasses.replace(shared, name="b"))]
    both += [with_layers(shared, dataclasses.replace(layer("a"), name="b", kind="A"))]
    assert both[0] != both[1]


def test_the_number_of_a_layer_taken_apart_does_not_count():
    first = layer("a")
    assert with_layers(apart(first)) == with_layers(apart(first))
    assert with_layers(first, apart(first)) == with_layers(first, apart(first))


def pickled(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 written by this very test


def test_a_pickled_graph_is_the_same():
    one = nested(np.arange(4.0)).rename({"end": "last"})
    again = pickled(one)
    assert again == one
    assert str(again) == str(one)
    assert str(again.journal) == str(one.journal) == "1. rename 'end' to 'last' [exact]"
    assert again.rename({"last": "end"}) == nested(np.arange(4.0))
    assert copy.copy(one) is copy.deepcopy(one) is one


def test_a_deep_nest_is_compared_and_pickled():
    nest = graph(call("innermost"))
    for _ in range(3000):
        nest = with_layers(layer("model", nest))
    assert pickled(nest) == nest
    assert isinstance(hash(nest), int)


def test_a_graph_without_live_layers_is_not_built():
    with pytest.raises(GraphError, match=r"'net' was not traced .* trace the model again"):
        nested().build()
    with pytest.raises(GraphError, match="trace the model again"):
        nested().select(kind="End").layers()
    with pytest.raises(GraphError, match="trace the model again"):
        nested().select(kind=int)
    assert nested().select(kind="End").paths == ("end",)


def test_no_edit_follows_an_origin():
    room = Path(ramet.graph.__file__).parent
    for path in room.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            asked = [node.value] if isinstance(node, ast.Attribute) else []
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                asked = node.args if node.func.id in ASKING else []
            for each in asked:
                follows = isinstance(each, ast.Attribute) and each.attr == "origin"
                assert not follows, f"{path.name}:{node.lineno} asks an origin"


ASKING = ("getattr", "hasattr", "isinstance", "vars", "dir", "callable", "type")
"""Functions by which an object is asked what it is."""


class Depths(CallLoop):
    """How many calls lie above each tensor."""

    def step(self, call):
        depth = 1 + max(leaves(self.filled(call.args)), default=0)
        self.keep(call, [depth] * len(call.outputs))


def test_one_loop_makes_calls_in_order_and_keeps_values_by_tensor():
    calls = call("x"), call("split", Ref("x"), outputs=(X, X)), call("add", [Ref("split", 1)])
    depths = Depths(graph(*calls, outputs=Ref("add")))
    depths.make_calls()
    assert depths.values == {Ref("x"): 1, Ref("split"): 2, Ref("split", 1): 2, Ref("add"): 3}
    again = Depths(depths.graph)
    again.values[Ref("x")] = 10
    again.make_calls(calls[:2])
    assert again.values == {Ref("x"): 10, Ref("split"): 11, Ref("split", 1): 11}


def test_names():
    assert unique_name("a", {"b"}) == "a"
    assert unique_name("a", {"a", "a#2"}) == "a#3"
    assert did_you_mean("dens", ["dense", "conv"]) == "; did you mean 'dense'?"
    assert did_you_mean("zzz", ["dense", "conv"]) == ""
    assert (counted(1, "layer"), counted(2, "layer")) == ("1 layer", "2 layers")


Pair = namedtuple("Pair", "left right")  # noqa: PYI024  its own kind of container


@pytest.mark.parametrize(
    "tree",
    [
        1,
        [1, (2, 3)],
        {"b": 1, "a": [2]},
        Pair(1, [2]),
        OrderedDict(b=1, a=2),
        defaultdict(list, b=1, a=2),
        type("MyList", (list,), {})([1, 2]),
    ],
)
def test_trees_keep_their_shape_types_and_order(tree):
    mapped = map_tree(lambda leaf: leaf * 10, tree)
    assert type(mapped) is type(tree)
    assert list(leaves(mapped)) == [leaf * 10 for leaf in leaves(tree)]
    assert map_tree(lambda leaf: leaf, tree) == tree
    if isinstance(tree, dict):
        assert list(mapped) == list(tree)
