"""Where two models first diverge."""

from dataclasses import dataclass

from ramet.graph.names import brief


@dataclass(frozen=True, slots=True, repr=False)
class Divergence:
    """The first call whose inputs agree and whose outputs do not.

    Examples:
        >>> other = ramet.clone(model)
        >>> other.get_layer("norm").set_weights([np.full(4, value) for value in (2, 0, 0, 1)])
        >>> ramet.verify(model, other, only="outputs").first_divergence.call
        'norm'
    """

    call: str
    """Path of the call in the first model."""
    difference: str
    """How the outputs differ."""
    cause: str
    """What explains it.

    `structure`, `weights`, `state`, `mask`, `arguments`, `order` (of random numbers) or `unknown`.
    """
    detail: str
    """What exactly differs, in words."""
    training: bool = False
    """Whether they diverge in training only."""

    def __repr__(self) -> str:
        """Return one line."""
        return brief("Divergence", str(self))

    def __str__(self) -> str:
        """Return all of it in one line."""
        mode = " in training" if self.training else ""
        return f"'{self.call}' {self.difference}{mode}; {self.cause}: {self.detail}"
