"""Words from files and from other libraries, made fit to be shown."""

MAX_LINE = 300
"""Letters of one line of an error. Keras's messages may hold a whole config."""


def printable(text: str) -> str:
    """Returns a text in which letters that would steer a terminal are escaped."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1]
        for letter in text
    )


def one_line(text: str, limit: int = MAX_LINE) -> str:
    """Returns the first paragraph of a text on one line, cut where it is too long."""
    paragraph = text.strip().split("\n\n", 1)[0]
    line = printable(" ".join(paragraph.split()))
    return line if len(line) <= limit else line[: limit - 3] + "..."
