"""A view as an SVG picture, in the same layout as the page."""

from collections.abc import Iterator
from typing import Any
from xml.sax.saxutils import escape

from ramet.errors import ExtraError
from ramet.showing import kinds
from ramet.showing.layout import HEIGHT, WIDTH, Layout, Point, lay_out
from ramet.showing.parts import ADDED, CHANGED, REMOVED, SAME, Edge, Node, View
from ramet.showing.shades import COLOURS, Key
from ramet.showing.table import kind_text

_FILLS = {SAME: "#ffffff", ADDED: "#d9f2dd", REMOVED: "#fadcdc", CHANGED: "#fdf0c8"}
_LINES = {SAME: "#8a929c", ADDED: "#2c8a3f", REMOVED: "#c23b3b", CHANGED: "#b07a00"}
_SHARED, _MASKED = "#7b4fc9", "#0b7a87"
_NAMESPACE = "http://www.w3.org/2000/svg"
_STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:11px;fill:#555c66}"
    ".name{font-size:13px;font-weight:600;fill:#1b1f24}"
)
_LEGEND_HEIGHT = 30
_SIDES = "width", "height"
_LONGEST = 16_000
"""Pixels of the longest side of a .png file."""
_CHARACTERS = 25, 30
"""How many characters of a name, and of a line below it, a node has room for."""


def picture_of(view: View, *, key: Key | None = None) -> str:
    """Return a view as the text of an SVG file; nested models are one node each.

    Args:
        view: The view.
        key: What the shades of nodes stand for, if they have some.
    """
    layout = lay_out(view)
    width, height = round(layout.width), round(layout.height)
    legend: list[str] = []
    if key is not None:
        legend, needed = _legend(key, height)
        width, height = max(width, needed), height + _LEGEND_HEIGHT
    box = f"0 0 {width} {height}"
    lines = [
        f'<svg xmlns="{_NAMESPACE}" width="{width}" height="{height}" viewBox="{box}">',
        f"<title>{_text(view.name)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fafbfc"/>',
        *_edges(view, layout),
        *(
            line
            for node, place in zip(view.nodes, layout.nodes, strict=True)
            for line in _node(node, place, _fill(node, key))
        ),
        *legend,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def drawn_as(suffix: str, picture: str) -> str | bytes:
    """Return an SVG picture in the format of a file.

    Raises:
        ExtraError: If a `.png` or `.pdf` is asked for and vl-convert is not installed.
    """
    if suffix == ".svg":
        return picture
    try:
        import vl_convert  # noqa: PLC0415 an optional package
    except ImportError as error:
        message = (
            f"a {suffix} file needs the package vl-convert-python, which is not installed; install "
            "it with: pip install 'ramet[show]', or write an .svg file"
        )
        raise ExtraError(message) from error
    converter: Any = vl_convert
    if suffix == ".pdf":
        return converter.svg_to_pdf(picture)
    return converter.svg_to_png(picture, scale=_scale(picture))


def _scale(picture: str) -> float:
    """Return how much a picture is enlarged, so that no side gets longer than a viewer takes."""
    head = picture.partition(">")[0]
    longest = max(float(head.partition(f' {side}="')[2].partition('"')[0]) for side in _SIDES)
    return min(2.0, _LONGEST / max(longest, 1.0))


def _edges(view: View, layout: Layout) -> Iterator[str]:
    places = {node.name: place for node, place in zip(view.nodes, layout.nodes, strict=True)}
    for edge, bends in zip(view.edges, layout.bends, strict=True):
        (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
        end = (x2, y2 - HEIGHT / 2)
        yield from _edge(edge, [(x1, y1 + HEIGHT / 2), *bends, end])
        x, y = end
        yield f'<path d="M{x - 4} {y - 7}L{x} {y}L{x + 4} {y - 7}z" fill="{_colour(edge)}"/>'


def _edge(edge: Edge, points: list[Point]) -> Iterator[str]:
    (x, y), *others = points
    path = [f"M{x} {y}"]
    for right, down in others:
        middle = (y + down) / 2
        path.append(f"C{x} {middle} {right} {middle} {right} {down}")
        x, y = right, down
    dash = ' stroke-dasharray="6 4"' if edge.masked else ""
    yield (
        f'<path d="{"".join(path)}" fill="none" stroke="{_colour(edge)}" stroke-width="1.5"{dash}/>'
    )


def _colour(edge: Edge) -> str:
    if edge.difference != SAME:
        return _LINES[edge.difference]
    return _MASKED if edge.masked else _LINES[SAME]


def _legend(key: Key, top: float) -> tuple[list[str], int]:
    """Return what the shades mean, below the graph, and how wide that is."""
    lines = [f'<text x="24" y="{top + 14}">{_text(key.title)}</text>']
    x = 50 + 6 * len(key.title)
    for colour, name in key.legend():
        lines.append(
            f'<rect x="{x}" y="{top + 4}" width="18" height="12" rx="3" fill="{colour}" '
            f'stroke="{_LINES[SAME]}"/>'
        )
        lines.append(f'<text x="{x + 24}" y="{top + 14}">{_text(name)}</text>')
        x += 40 + 6 * len(name)
    return lines, x


def _fill(node: Node, key: Key | None) -> str:
    if key is None or node.shade is None or node.difference != SAME:
        return _FILLS[node.difference]
    return key.colour_of(node.shade.value)


def _node(node: Node, place: Point, fill: str) -> Iterator[str]:
    x, y = place[0] - WIDTH / 2, place[1] - HEIGHT / 2
    yield f"<g><title>{_text(node.name)}</title>"
    box = f'width="{WIDTH}" height="{HEIGHT}" rx="7" fill="{fill}"'
    line = f'stroke="{_LINES[node.difference]}"'
    if node.inside is not None:
        yield f'<rect x="{x + 4}" y="{y + 4}" {box} {line}/>'
    yield f'<rect x="{x}" y="{y}" {box} {line}/>'
    colour = kinds.COLOURS[kinds.word_of(node.kind, is_model=node.inside is not None)]
    yield (
        f'<rect x="{x + 4}" y="{y + 8}" width="4" height="{HEIGHT - 16}" rx="2" fill="{colour}"/>'
    )
    rows = (("name", node.name), ("", _second_line(node)), ("", node.output))
    for number, (style, text) in enumerate(rows):
        room = _CHARACTERS[0 if style else 1]
        shown = text if len(text) <= room else f"{text[: room - 1]}…"
        about = f' class="{style}"' if style else _ink(fill)
        yield f'<text x="{x + 14}" y="{y + 19 + 17 * number}"{about}>{_text(shown)}</text>'
    yield from _badges(node, x + WIDTH, y)
    yield "</g>"


def _ink(fill: str) -> str:
    """Return the style of a text that stands on a dark shade."""
    return ' style="fill:#1b1f24"' if fill in COLOURS[-3:] else ""


def _second_line(node: Node) -> str:
    """Return the class, and what the call costs if nodes are shaded by that."""
    kind = kind_text(node)
    if node.shade is None or not node.shade.text:
        return kind
    room = _CHARACTERS[1] - len(node.shade.text) - len(" · ")
    kind = kind if len(kind) <= room else f"{kind[: room - 1]}…"
    return f"{kind} · {node.shade.text}"


def _badges(node: Node, right: float, y: float) -> Iterator[str]:
    badges = [("mask", _MASKED)] if node.masked else []
    badges += [("shared", _SHARED)] if node.shared else []
    for text, colour in badges:
        width = 10 + 6 * len(text)
        right -= width + 4
        yield f'<rect x="{right}" y="{y - 8}" width="{width}" height="16" rx="8" fill="{colour}"/>'
        yield (
            f'<text x="{right + width / 2}" y="{y + 4}" text-anchor="middle" '
            f'style="fill:#ffffff">{text}</text>'
        )


def _text(text: str) -> str:
    """Escape a text for XML, which allows no control characters."""
    return escape("".join(sign if sign.isprintable() else " " for sign in text))
