"""Graphs written by hand: checked, sorted, printed. No Keras needed."""

import dataclasses
from collections import OrderedDict, defaultdict, namedtuple
from itertools import pairwise

import pytest

from ramet import GraphError, RametError
from ramet.graph import Call, Graph, Layer, Ref, Spec
from ramet.graph.names import counted, did_you_mean, unique_name
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
