"""Texts from files and other libraries, made safe to print."""

MAX_LINE = 300
"""Longest line of an error. Messages of Keras may hold a whole config."""
MAX_NAME = 80
"""Longest name in an error. Files may have names of any length."""


def printable(text: str) -> str:
    """Return a text in which the control characters of terminals are escaped."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1]
        for letter in text
    )


def one_line(text: str, limit: int = MAX_LINE) -> str:
    """Return the first paragraph of a text on one line, truncated if it is too long."""
    paragraph = text.strip().split("\n\n", 1)[0]
    line = printable(" ".join(paragraph.split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."


def brief(text: object) -> str:
    """Return a name from a file as it may stand in a message: printable, and not too long."""
    return one_line(str(text), MAX_NAME)
