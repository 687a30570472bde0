"""Ranks: nodes from top to bottom, in an order with few crossings."""

import random
import time

import pytest

from ramet.showing.ranks import ranked

pytestmark = pytest.mark.backend_free


def depths(ranks):
    return {item: depth for depth, rank in enumerate(ranks.ranks) for item in rank}


def test_every_edge_passes_each_rank_once():
    rng = random.Random(0)
    for _ in range(50):
        size = rng.randrange(1, 30)
        pairs = {tuple(sorted(rng.sample(range(size), 2))) for _ in range(size)} if size > 1 else ()
        ranks = ranked(size, [*pairs])
        depth = depths(ranks)
        assert {*range(size)} <= depth.keys()
        for (source, target), chain in zip(pairs, ranks.chains, strict=True):
            assert (chain[0], chain[-1]) == (source, target)
            assert [depth[item] - depth[source] for item in chain] == [*range(len(chain))]


def test_branches_do_not_cross_where_they_need_not():
    ranks = ranked(6, [(0, 3), (1, 2), (3, 5), (2, 4)])
    ends = {0: 3, 1: 2}
    assert [ends[item] for item in ranks.ranks[0]] == [*ranks.ranks[1]]


def test_cycles_are_drawn():
    ranks = ranked(3, [(0, 1), (1, 2), (2, 0)])
    assert len(ranks.ranks) == 3
    assert ranks.chains[2][0] == 0, "what closes the cycle is drawn upwards"


def test_ports_are_at_the_top_and_the_bottom():
    ranks = ranked(4, [(0, 1), (2, 1), (1, 3), (0, 3)], top=2, bottom=3)
    assert 2 in ranks.ranks[0]
    assert ranks.ranks[-1] == (3,)


def test_deep_graphs_take_little_time():
    size = 5000
    edges = [(n, n + 1) for n in range(size - 1)] + [(n, n + 9) for n in range(0, size - 9, 9)]
    start = time.process_time()
    ranks = ranked(size, edges)
    assert time.process_time() - start < 10
    assert len(ranks.ranks) == size
