"""Atoms: the smallest parts of axes that can be removed, and which of them are one.

Every index of an axis is labelled with an atom, or with -1 if it always stays. Atoms that were
*tied* are one. An atom may be a *product*: it falls if one of its factors falls, as the unit
(head, width) of a Dense layer does whose output is reshaped to heads. Atoms without factors are
*basic*; the channels of groups are basic atoms.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

Labels: TypeAlias = np.ndarray[Any, Any]
"""The atoms of an axis, one per index; -1 for an index that always stays."""


class Atoms:
    """All atoms of a model."""

    def __init__(self) -> None:
        """Start without atoms."""
        self._parent = np.zeros(1024, np.int64)
        self.count = 0
        """How many atoms there are."""
        self._families: list[int] = []
        self._factors: dict[int, tuple[int, ...]] = {}
        self._products: dict[tuple[int, ...], int] = {}
        self._locks: dict[int, list[str]] = {}
        self._lossy: dict[int, list[str]] = {}
        self._mixed: dict[int, list[str]] = {}
        self.titles: list[str] = []
        """A name for each family: atoms that were created together."""

    # --- creating ---

    def fresh(self, count: int, title: str) -> Labels:
        """Return new atoms, which are one family."""
        start = self.count
        atoms = np.arange(start, start + count)
        if start + count > len(self._parent):
            self._parent = np.concatenate([self._parent, np.zeros(start + count, np.int64)])
        self._parent[start : start + count] = atoms
        self.count += count
        self._families += [len(self.titles)] * count
        self.titles.append(title)
        return atoms

    def product(self, first: int, second: int) -> int:
        """Return the atom that falls if one of two falls; -1 is one that never does."""
        if first < 0 or second < 0:
            return max(first, second)
        factors = tuple(sorted({*self.basics(first), *self.basics(second)}))
        if len(factors) == 1:
            return factors[0]
        if factors not in self._products:
            (atom,) = self.fresh(1, "").tolist()
            self._factors[atom] = factors
            self._products[factors] = atom
        return self._products[factors]

    # --- reading ---

    def roots(self, labels: Labels) -> Labels:
        """Return the atoms that stand for labels; tied atoms have the same."""
        current = labels
        while True:
            above = np.where(current < 0, -1, self._parent[np.maximum(current, 0)])
            if np.array_equal(above, current):
                return above
            current = above

    def root(self, atom: int) -> int:
        """Return the atom that stands for another."""
        if atom < 0:
            return -1
        while (above := int(self._parent[atom])) != atom:
            self._parent[atom] = self._parent[above]
            atom = above
        return atom

    def basics(self, atom: int) -> tuple[int, ...]:
        """List the basic atoms that an atom is made of: itself, or its factors, each once."""
        root = self.root(atom)
        if root < 0:
            return ()
        factors = self._factors.get(root)
        if factors is None:
            return (root,)
        return tuple(dict.fromkeys(b for factor in factors for b in self.basics(factor)))

    def spread(self, labels: Labels) -> tuple[Labels, Labels]:
        """Return the basic atoms of an axis, each with the index that it belongs to."""
        roots = self.roots(labels)
        at = np.flatnonzero(roots >= 0)
        found = roots[at]
        products = self._are_products(found)
        if not products.any():
            return at, found
        basics = {atom: self.basics(atom) for atom in np.unique(found[products]).tolist()}
        pairs = [
            (index, basic)
            for index, atom in zip(at.tolist(), found.tolist(), strict=True)
            for basic in basics.get(atom, (atom,))
        ]
        flat = np.array(pairs, np.int64)
        return flat[:, 0], flat[:, 1]

    def products(self, labels: Labels) -> list[int]:
        """List the atoms of an axis that have factors, each once."""
        roots = np.unique(self.roots(labels))
        return roots[self._are_products(roots)].tolist()

    def _are_products(self, roots: Labels) -> Labels:
        if not self._factors:
            return np.zeros(len(roots), bool)
        return np.isin(roots, np.fromiter(self._factors, np.int64))

    def is_product(self, atom: int) -> bool:
        """Whether an atom has factors."""
        return self.root(atom) in self._factors

    def locks(self, atom: int) -> tuple[str, ...]:
        """Return why a basic atom always stays; nothing if it can be removed."""
        return tuple(dict.fromkeys(self._locks.get(self.root(atom), ())))

    def losses(self, atom: int) -> tuple[str, ...]:
        """Return why removing a basic atom differs from masking it; nothing if it does not."""
        return tuple(dict.fromkeys(self._lossy.get(self.root(atom), ())))

    def mixers(self, atom: int) -> tuple[str, ...]:
        """Return why a new channel beside a basic atom changes others, whatever reads it."""
        return tuple(dict.fromkeys(self._mixed.get(self.root(atom), ())))

    def families(self) -> tuple[Labels, Labels]:
        """Return the families of basic atoms, for each atom of a family: the atom, the family."""
        families = np.array(self._families, np.int64)
        roots = self.roots(np.arange(self.count))
        titled = np.array([bool(title) for title in self.titles], bool)[families]
        counts = titled & ~self._are_products(roots)
        return roots[counts], families[counts]

    def noted(self) -> tuple[Labels, Labels]:
        """Return the basic atoms that always stay, and those whose removal is lossy."""
        return np.array([*self._locks], np.int64), np.array([*self._lossy], np.int64)

    def size_of(self, family: int) -> int:
        """Return how many atoms were created together."""
        return self._families.count(family)

    # --- what atoms have to do with each other ---

    def lock(self, labels: Labels, reason: str) -> None:
        """Note that atoms always stay."""
        self._note(self._locks, labels, reason)

    def lose(self, labels: Labels, reason: str) -> None:
        """Note that removing atoms differs from masking them."""
        self._note(self._lossy, labels, reason)

    def mix(self, labels: Labels, reason: str) -> None:
        """Note that what becomes of other atoms depends on these, without a weight."""
        self._note(self._mixed, labels, reason)

    def _note(self, notes: dict[int, list[str]], labels: Labels, reason: str) -> None:
        for basic in _each_once(self.spread(np.unique(self.roots(labels)))[1]):
            notes.setdefault(basic, []).append(reason)

    def tie(self, first: Labels, second: Labels, reason: str) -> None:
        """Make the atoms of two axes one, index by index.

        Args:
            first: One axis.
            second: Another of the same size.
            reason: Why an atom always stays that meets an index which does.
        """
        ours, theirs = self.roots(first), self.roots(second)
        if np.array_equal(ours, theirs):
            return
        if self._are_apart(ours, theirs):
            self._parent[theirs] = ours
            return
        for one, other in zip(ours.tolist(), theirs.tolist(), strict=True):
            if one < 0 or other < 0:
                if one != other:
                    self.lock(np.array([max(one, other)]), reason)
            else:
                self._unite(one, other)

    def _are_apart(self, ours: Labels, theirs: Labels) -> bool:
        """Whether two axes are of basic atoms, each once, of which the second has no notes."""
        both = np.concatenate([ours, theirs])
        if both.min() < 0 or len(np.unique(both)) < len(both) or self._are_products(both).any():
            return False
        notes = (self._locks, self._lossy, self._mixed)
        return not any(note and not note.keys().isdisjoint(theirs.tolist()) for note in notes)

    def _unite(self, first: int, second: int) -> None:
        first, second = self.root(first), self.root(second)
        if first == second:
            return
        ours, theirs = self.basics(first), self.basics(second)
        if {*ours} == {*theirs}:
            return
        if self.is_product(first) and self.is_product(second):
            self._parent[second] = first
            del self._factors[second]
            self._match(ours, theirs)
        elif {*ours} & {*theirs}:  # A factor of a product is tied to the product.
            self._merge((*ours, *theirs))
        else:
            top, below = (second, first) if self.is_product(second) else (first, second)
            self._hand_over(below, self.basics(top))
            self._parent[below] = top

    def _match(self, ours: Sequence[int], theirs: Sequence[int]) -> None:
        """Tie the factors of two products that are one: in pairs, or all if that cannot be."""
        left = [atom for atom in ours if atom not in theirs]
        right = [atom for atom in theirs if atom not in ours]
        if len(left) == len(right):
            for one, other in zip(left, right, strict=True):
                self._unite(one, other)
        else:
            self._merge((*ours, *theirs))

    def _merge(self, atoms: Iterable[int]) -> None:
        first, *others = atoms
        for other in others:
            self._unite(first, other)

    def _hand_over(self, atom: int, heirs: Iterable[int]) -> None:
        for notes in (self._locks, self._lossy, self._mixed):
            for reason in notes.pop(atom, ()):
                for heir in heirs:
                    notes.setdefault(heir, []).append(reason)

    # --- axes that become several, or one ---

    def crossed(self, first: Labels, second: Labels) -> Labels:
        """Return the atoms of two axes that become one, the second one varying fastest."""
        if (second < 0).all():
            return np.repeat(first, len(second))
        if (first < 0).all():
            return np.tile(second, len(first))
        pairs = ((one, other) for one in first.tolist() for other in second.tolist())
        return np.array([self.product(*pair) for pair in pairs], np.int64)

    def split(self, labels: Labels, rows: int, title: str) -> tuple[Labels, Labels]:
        """Return the atoms of two axes that one becomes, the second one varying fastest."""
        grid = self.roots(labels).reshape(rows, -1)
        columns = grid.shape[1]
        if rows == 1 or (grid == grid[:1]).all():
            return np.full(rows, -1), grid[0].copy()
        if columns == 1 or (grid == grid[:, :1]).all():
            return grid[:, 0].copy(), np.full(columns, -1)
        known = self._factored(grid)
        if known is not None:
            return known
        first, second = self.fresh(rows, f"{title}:blocks"), self.fresh(columns, f"{title}:width")
        self.tie(labels, self.crossed(first, second), "it is in one block with others that stay")
        return first, second

    def _factored(self, grid: Labels) -> tuple[Labels, Labels] | None:
        """Return the factors of rows and columns, if all atoms of a grid are such products."""
        sets = [[frozenset(self.basics(atom)) for atom in row] for row in grid.tolist()]
        rows = [frozenset.intersection(*row) for row in sets]
        columns = [frozenset.intersection(*column) for column in zip(*sets, strict=True)]
        if any(
            cell != rows[i] | columns[j] for i, row in enumerate(sets) for j, cell in enumerate(row)
        ):
            return None
        common = frozenset.intersection(*rows)
        rows = [row - common for row in rows] if any(rows) else rows
        return self._joined(rows), self._joined(columns)

    def _joined(self, sets: Iterable[frozenset[int]]) -> Labels:
        atoms: list[int] = []
        for factors in sets:
            atom = -1
            for factor in sorted(factors):
                atom = self.product(atom, factor)
            atoms.append(atom)
        return np.array(atoms, np.int64)


def _each_once(atoms: Labels) -> list[int]:
    """List atoms in the order in which they come first."""
    return [*dict.fromkeys(atoms.tolist())]
