"""The order of options, which typer loses: it collects the values of each option separately."""

from typing import Any

import typer
from typer.core import TyperCommand

EDITS = (
    *("replace", "remove", "insert_after", "insert_before", "insert_on", "rename", "configure"),
    *("freeze", "unfreeze", "flatten", "prefix", "share", "unshare", "rewire"),
    *("add_output", "extract", "inputs"),
)
"""The options whose order matters."""

_KEY = "ramet.cli.edits"


class Ordered(TyperCommand):
    """A command that remembers the order of the options for edits."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, first for their order and then as usual."""
        if not ctx.resilient_parsing:
            values, _, order = self.make_parser(ctx).parse_args(args=list(args))
            left = {name: iter(values.get(name) or ()) for name in EDITS}
            names = [parameter.name for parameter in order if parameter.name in EDITS]
            ctx.meta[_KEY] = [(name, next(left[name])) for name in names]
        return super().parse_args(ctx, args)


def edits_in_order(ctx: typer.Context) -> list[tuple[str, str]]:
    """Return the options for edits, as pairs of name and value."""
    return ctx.meta[_KEY]
