"""A graph with what can be folded folded."""

from ramet.compress.folding.search import Search
from ramet.compress.folding.site import Site
from ramet.graph import Edit, Graph, Layer
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.nested import rebuilt
from ramet.graph.edits.remake import remade_layer


def apply(graph: Graph, search: Search, edit: Edit) -> Graph:
    """Return a graph with its layers folded, without an entry in the journal.

    Args:
        graph: The outermost graph.
        search: What can be folded in it.
        edit: The edit that it belongs to.
    """
    sites = {id(site.graph.calls): site for site in search.sites}

    def renewed(layer: Layer) -> Layer:
        weights = search.weights.get(layer.identity)
        return layer if weights is None else remade_layer(layer, weights.remade(), edit)

    def changed(inner: Graph) -> Graph:
        site = sites[id(inner.calls)]
        return _without(inner, site, edit) if site.gone or site.operands else inner

    return rebuilt(graph, edit, renewed, changed)


def _without(graph: Graph, site: Site, edit: Edit) -> Graph:
    """Return one graph without the calls that are gone."""
    draft = Draft(graph, edit)
    for name, operands in site.operands.items():
        if name not in site.gone:
            draft.change_call(name, args=([*operands],))
    draft.redirect(site.sources())
    draft.forget(site.gone)
    return draft.done()
