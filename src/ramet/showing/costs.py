"""What calls cost, as shades of their nodes."""

import dataclasses
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field

from ramet.results.profile import CallCost, Profile
from ramet.showing.parts import Shade, View
from ramet.showing.shades import Key, names_of
from ramet.text.figures import amount, size_text

_STEPS = (0.005, 0.02, 0.08, 0.3)
"""The largest share of the total of each shade but the last."""

_FIELDS = {"params": "new_params", "memory": "activation_bytes", "time": "seconds"}
_WORDS = {"macs": "MACs", "params": "params", "memory": "bytes of outputs", "time": "time"}


def key_of(by: str) -> Key:
    """Return what the shades stand for: shares of the total."""
    names = names_of([f"{100 * most:g} %" for most in _STEPS])
    return Key(f"share of {_WORDS[by]}", _STEPS, names, is_share=True)


def shaded(view: View, profile: Profile, by: str) -> View:
    """Return a view whose nodes are shaded by what their calls cost.

    A nested model that is called several times is one view, with the costs of its first call.

    Args:
        view: The view.
        profile: A profile of the same graph.
        by: `macs`, `params`, `memory` or `time`.
    """
    name = _FIELDS.get(by, by)
    of = operator.attrgetter(name)
    total = sum(of(cost) or 0 for cost in profile.calls)
    return _Shading(by, name, total).view(view, profile.calls)


@dataclass(eq=False)
class _Shading:
    """Shades views, each once."""

    by: str
    name: str
    total: float
    views: dict[int, View] = field(default_factory=dict[int, View])

    def view(self, view: View, costs: Sequence[CallCost]) -> View:
        """Return a view with shades."""
        if id(view) not in self.views:
            by_label = {cost.path.rpartition("/")[2]: cost for cost in costs}
            nodes = list(view.nodes)
            for number, node in enumerate(nodes):
                cost = by_label.get(node.name) or by_label.get(f"{node.name}#1")
                if cost is not None:
                    inside = node.inside and self.view(node.inside, cost.inside)
                    nodes[number] = dataclasses.replace(
                        node, inside=inside, shade=self._shade(cost)
                    )
            self.views[id(view)] = dataclasses.replace(view, nodes=tuple(nodes))
        return self.views[id(view)]

    def _shade(self, cost: CallCost) -> Shade:
        value: float = getattr(cost, self.name) or 0
        share = value / self.total if self.total else 0.0
        if self.by == "macs" and cost.uncounted and not value:
            return Shade(share, "MACs not known")
        return Shade(share, f"{self._text(value)} ({100 * share:.1f} %)" if value else "")

    def _text(self, value: float) -> str:
        if self.by == "time":
            return f"{1000 * value:.2g} ms"
        if self.by == "memory":
            return size_text(int(value))
        return f"{amount(value)} {_WORDS[self.by]}"
