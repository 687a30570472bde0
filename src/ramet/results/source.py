"""What `emit` returns."""

import pickle
from collections.abc import Mapping
from html import escape
from types import MappingProxyType
from typing import Any

from rich.text import Text

from ramet.graph.names import brief, counted


class Source(str):  # noqa: SLOT000 a string that carries more than its text
    """The source of a model, a string, with the parameters that it needs.

    `build_model(**source.parameters)` re-creates the model. Like every string, it is true in
    a condition unless it is empty; `source.ok` says whether it is complete. A source can be
    pickled, but without parameters that cannot be, such as a lambda.

    Examples:
        >>> source = ramet.emit(model)
        >>> source.ok, source.differences
        (True, ())
    """

    _parameters: Mapping[str, Any] = MappingProxyType({})
    _differences: tuple[str, ...] = ()

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Objects without source, by the names of the parameters of `build_model`."""
        return self._parameters

    @property
    def differences(self) -> tuple[str, ...]:
        """What the source does not say of the model, in words, such as attributes set later."""
        return self._differences

    @property
    def ok(self) -> bool:
        """Whether the source is complete: `differences` is empty."""
        return not self._differences

    def to_dict(self) -> dict[str, Any]:
        """Return the code, the names of its parameters and the differences, for JSON."""
        return {
            "ok": self.ok,
            "code": str(self),
            "parameters": [*self.parameters],
            "differences": [*self.differences],
        }

    def __str__(self) -> str:
        """Return the code, as a plain string."""
        return str.__str__(self)

    def __copy__(self) -> "Source":
        return self

    def __deepcopy__(self, memo: Any) -> "Source":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        kept = {name: value for name, value in self.parameters.items() if _can_be_pickled(value)}
        return Source.of, (str(self), kept, [*self.differences])

    def __repr__(self) -> str:
        """Return the number of lines and parameters, on one line."""
        parameters = f", {counted(len(self.parameters), 'parameter')}" if self.parameters else ""
        return brief("Source:", f"{counted(self.count(chr(10)), 'line')}{parameters}")

    def __rich__(self) -> Text:
        """Return the code for rich, without interpreting brackets as markup."""
        return Text(str(self))

    def _repr_html_(self) -> str:
        """Return the code for notebooks."""
        return f"<pre>{escape(str(self))}</pre>"

    @classmethod
    def of(cls, text: str, parameters: Mapping[str, Any], differences: list[str]) -> "Source":
        """Return a source with its parameters and differences."""
        source = cls(text)
        source._parameters = MappingProxyType(dict(parameters))
        source._differences = tuple(differences)
        return source


def _can_be_pickled(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 a class may raise anything
        return False
    return True
