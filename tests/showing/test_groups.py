"""Groups: blocks by name, and by structure where names say nothing."""

from itertools import pairwise

import pytest

from ramet.showing.gist import gist_of
from ramet.showing.groups import groups_of
from ramet.showing.kinds import COLOURS, word_of
from ramet.showing.parts import Edge, Node, View
from ramet.showing.scopes import scopes_of

pytestmark = pytest.mark.backend_free


def view(names, more=()):
    flags = {"masked": False, "shared": False, "again": False}
    nodes = tuple(Node(name, "Dense", "", (), None, 0, **flags) for name in names)
    pairs = [*pairwise(names), *more]
    return View("net", nodes, tuple(Edge(one, other, masked=False) for one, other in pairs))


def block(stage, number):
    return [f"stage{stage}_block{number}_{part}" for part in ("conv", "norm", "relu")]


NAMES = ["input", *(n for s in (1, 2, 3) for b in (1, 2, 3) for n in block(s, b)), "pool", "head"]


def test_blocks_are_groups_in_groups():
    groups = groups_of(view(NAMES))
    outer = [group.name for group in groups if group.parent is None]
    assert outer == ["stage1", "stage2", "stage3"]
    inner = [group.name for group in groups if group.parent == 0]
    assert inner == [f"stage1_block{number}" for number in (1, 2, 3)]
    assert all({*group.nodes} <= {*groups[group.parent].nodes} for group in groups if group.parent)


def test_small_views_have_no_groups():
    assert groups_of(view(NAMES[:10])) == ()


def test_a_layer_that_an_edit_brought_in_is_taken_in():
    names = [*NAMES[:6], "drop", *NAMES[6:]]
    groups = groups_of(view(names))
    assert groups[0].name == "stage1"
    assert names.index("drop") in groups[0].nodes


def test_without_names_blocks_lie_between_single_tensors():
    names = [f"conv2d_{number}" for number in range(40)]
    skips = [(names[n], names[n + 4]) for n in range(0, 36, 5)]
    groups = groups_of(view(names, skips))
    assert len(groups) >= 6
    assert all(group.parent is None for group in groups)
    assert not any({*one.nodes} & {*two.nodes} for one in groups for two in groups if one != two)


def test_every_edge_is_drawn_in_each_scope_that_it_goes_through():
    net = view(NAMES, [("stage1_block1_conv", "stage1_block3_relu"), ("input", "head")])
    groups = groups_of(net)
    root, *inside = scopes_of(net, groups)
    assert sorted(item for item in root.items if item >= 0) == [0, len(NAMES) - 2, len(NAMES) - 1]
    ends = {(root.items[line.path[0]], root.items[line.path[-1]]) for line in root.lines}
    assert ends == {(0, -1), (-1, -2), (-2, -3), (-3, 28), (28, 29), (0, 29)}
    assert all({"in", "out"} <= {*scope.items} for scope in inside)
    every = [item for scope in (root, *inside) for item in scope.items if isinstance(item, int)]
    assert len(every) == len({*every}) == len(NAMES) + len(groups)


def test_kinds_have_words_and_colours():
    words = {
        "Conv2D": "convolution",
        "SeparableConv1D": "convolution",
        "ConvLSTM2D": "recurrent",
        "MultiHeadAttention": "attention",
        "BatchNormalization": "normalization",
        "ReLU": "activation",
        "PReLU": "activation",
        "MaxPooling2D": "pooling",
        "Add": "merging",
        "SpatialDropout2D": "regularization",
        "Embedding": "embedding",
        "Mine": "other",
    }
    assert {kind: word_of(kind) for kind in words} == words
    assert word_of("Mine", is_model=True) == "model"
    assert len({*COLOURS.values()}) == len(COLOURS)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (None, ""),
        ({"units": 1, "activation": "linear"}, "1 unit"),
        (
            {"filters": 64, "kernel_size": (3, 3), "strides": (2, 2), "activation": "relu"},
            "64 filters 3\N{MULTIPLICATION SIGN}3, stride 2\N{MULTIPLICATION SIGN}2, relu",
        ),
        ({"num_heads": 4, "key_dim": 16}, "4 heads, key 16"),
        ({"rate": 0.25}, "rate 0.25"),
        ({"pool_size": (2,), "strides": (2,)}, "2"),
        ({"activation": {"class_name": "function", "config": "mine"}}, "mine"),
        ({"target_shape": (4, 4)}, "to (4, 4)"),
    ],
)
def test_a_gist_says_what_matters(config, text):
    assert gist_of(config) == text
