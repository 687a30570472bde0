"""A graph with layers replaced by the factors of their kernels."""

import dataclasses
from typing import Any

from ramet.building.reconfigure import made_with
from ramet.compress.factoring.kernels import factor
from ramet.compress.factoring.pieces import Piece
from ramet.compress.factoring.plan import Candidate
from ramet.errors import OptionError
from ramet.graph import Call, Edit, Graph, Layer, Ref
from ramet.graph.edits.draft import UNKNOWN, Draft
from ramet.graph.edits.nested import edit_everywhere
from ramet.graph.edits.remake import Remade, remake
from ramet.graph.locate import calls_of_layer
from ramet.graph.values import Variable


def apply(graph: Graph, candidates: list[Candidate], edit: Edit) -> Graph:
    """Return a graph with some layers factorized, without an entry in the journal."""
    taken = {key for visit in graph.walk() for key in visit.graph.layers}
    remade: dict[tuple[int, int], Remade] = {}
    before: list[tuple[Layer, list[Layer]]] = []
    for each in candidates:
        if each.how is None or each.ranks is None:
            continue
        *pieces, last = each.how.pieces(each.ranks)
        new = [_new_layer(graph, each, piece, taken, edit) for piece in pieces]
        before.append((each.layer, new))
        remade[each.layer.identity] = Remade(last.changes, _recipe(each, last))
    for layer, new in before:
        graph = edit_everywhere(graph, layer, edit, lambda g, key, new=new: _put(g, key, new, edit))
    return remake(graph, remade, edit)


def _recipe(candidate: Candidate, piece: Piece) -> dict[tuple[str, ...], Any]:
    """Return the weights of one layer; its bias stays as it is."""
    how, ranks = candidate.how, candidate.ranks
    if how is None or ranks is None:
        return {}
    kernel = Variable(candidate.layer, ("kernel",))
    return {("kernel",): factor(kernel, piece.part, how.shape, ranks, piece.kernel)}


def _new_layer(
    graph: Graph, candidate: Candidate, piece: Piece, taken: set[str], edit: Edit
) -> Layer:
    """Return the record of a layer that computes a factor, under a name that is free."""
    old = candidate.layer
    name = base = f"{old.name}_{piece.name}"
    number = 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    live = made_with(old.origin, {**piece.changes, "name": name})
    if live is None:
        message = (
            f"'{candidate.path}' ({old.kind}) cannot be re-created from its config, so its kernel "
            "cannot be factorized; choose other layers with at="
        )
        raise OptionError(message)
    live.trainable = old.origin.trainable
    record = graph.live_origin().layer(live, f"a factor of '{candidate.path}'")
    recipe = _recipe(candidate, piece)
    return dataclasses.replace(
        record, brought=True, recipe=recipe, trainable=old.trainable, edit=edit
    )


def _put(graph: Graph, key: str, new: list[Layer], edit: Edit) -> Graph:
    """Put layers before every call of another."""
    draft = Draft(graph, edit)
    keys = [draft.add_or_find(layer) for layer in new]
    for call in calls_of_layer(graph, key):
        ref = call.args[0]
        for name in keys:
            free = name
            number = 1
            while free in draft.calls:
                number += 1
                free = f"{name}#{number}"
            draft.add_call(Call(free, name, (ref,), {}, (UNKNOWN,)), after=ref.call)
            ref = Ref(free)
        draft.change_call(call.name, args=(ref, *call.args[1:]))
    return draft.done()
