"""The order of options: typer collects each option by itself and forgets what came first."""

from typing import Any

import typer
from typer.core import TyperCommand

EDITS = ("replace", "remove", "insert_after", "insert_before", "rename", "configure")
"""The options whose order matters."""

_KEY = "ramet.cli.edits"


class Ordered(TyperCommand):
    """A command that remembers in which order the options for edits were given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the arguments, once for their order and once as always."""
        if not ctx.resilient_parsing:
            values, _, order = self.make_parser(ctx).parse_args(args=list(args))
            left = {name: iter(values.get(name) or ()) for name in EDITS}
            names = [parameter.name for parameter in order if parameter.name in EDITS]
            ctx.meta[_KEY] = [(name, next(left[name])) for name in names]
        return super().parse_args(ctx, args)


def edits_in_order(ctx: typer.Context) -> list[tuple[str, str]]:
    """Returns the options for edits, as pairs of name and value."""
    return ctx.meta[_KEY]
