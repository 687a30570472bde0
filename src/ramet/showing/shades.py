"""Shades of nodes: their colours, and the key that says what they stand for."""

from dataclasses import dataclass

COLOURS = ("#ffffff", "#fff1de", "#fddcb4", "#fcc184", "#f9a153", "#ee7d2b")
"""Shades of one hue from light to dark, which people who cannot tell hues apart see too."""


@dataclass(frozen=True, slots=True)
class Key:
    """What the shades of a view stand for."""

    title: str
    """What they show, in words."""
    most: tuple[float, ...]
    """The largest value of each shade but the last, which has all larger ones."""
    names: tuple[str, ...]
    """The values that each shade stands for, in words."""
    is_share: bool
    """Whether values are shares of a total, which add up; of others, the largest counts."""

    def step_of(self, value: float) -> int:
        """Return which shade a value has: 0 for none, and up to 5."""
        return 0 if value <= 0 else 1 + sum(value > most for most in self.most)

    def colour_of(self, value: float) -> str:
        """Return the colour of the shade of a value."""
        return COLOURS[self.step_of(value)]

    def legend(self) -> list[tuple[str, str]]:
        """List the colours of the shades, and which values they stand for."""
        return [*zip(COLOURS[1:], self.names, strict=True)]


def names_of(values: list[str]) -> tuple[str, ...]:
    """Return the values that shades stand for in words, from their upper ends."""
    return (f"up to {values[0]}", *values[1:], "more")
