"""Short expressions that are not assigned to a name, since the next one uses them: `(x - y) ** 2`.

They are written in the order in which the model computes them: an expression can only take over
those just before it, in the order in which it uses them.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from ramet.graph import Call, Ref
from ramet.source.expr import Expr, Group, Leaf, closed, flat
from ramet.source.tensors import Tensors

Form: TypeAlias = Literal["operator", "index", "call"]
"""How an operation is written: `x + y`, `x[:, 0]` or `keras.ops.sum(x)`."""

FORMS: Final = ("operator", "index", "call")

_LONGEST = 45
"""Longer expressions get a name."""


@dataclass(frozen=True, slots=True)
class _Item:
    step: Call
    position: int
    expr: Leaf
    form: Form


@dataclass
class Waiting:
    """The expressions that are not written yet, in order."""

    tensors: Tensors
    """The names of the tensors."""
    assign: Callable[[Call, int, Expr], None]
    """Writes the call at a position as a statement."""
    joined: int = 0
    """How many of the last ones the expression that is written now takes over."""
    _items: list[_Item] = field(default_factory=list["_Item"])

    def join(self, step: Call, forms: Collection[Form]) -> None:
        """Take over the expressions that a call uses, or assign all that wait to names.

        Args:
            step: The call.
            forms: The forms of expressions that look well inside of it.
        """
        waiting = {Ref(item.step.name): item for item in self._items}
        used = [waiting[ref] for ref in step.written_refs if ref in waiting]
        start = len(self._items) - len(used)
        if self._items[max(start, 0) :] != used or any(item.form not in forms for item in used):
            self.settle()
            return
        self.joined = len(used)
        for item in used:
            self.tensors.names[Ref(item.step.name)] = item.expr

    def settle(self) -> None:
        """Assign all to names."""
        self.joined, items, self._items = 0, self._items, []
        for item in items:
            self.assign(item.step, item.position, item.expr)

    def finish(self) -> None:
        """Drop what was taken over, and assign the others to names, before a statement."""
        self._drop()
        self.settle()

    def add(self, step: Call, position: int, expr: Expr, form: Form) -> bool:
        """Have an expression wait, instead of what it takes over; return whether it may."""
        if len(flat(expr)) > _LONGEST or len(step.outputs) > 1:
            return False
        if not self.tensors.is_used_once(Ref(step.name)):
            return False
        self._drop()
        leaf = closed(expr) if isinstance(expr, Group) else expr
        self._items.append(_Item(step, position, leaf, form))
        return True

    def _drop(self) -> None:
        del self._items[len(self._items) - self.joined :]
        self.joined = 0
