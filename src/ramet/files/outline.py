"""Models that are only looked at: loaded, or as outlines of files that `load` refuses."""

from pathlib import Path
from typing import Any

from ramet.errors import FileError
from ramet.files.archive import ARCHIVE_SUFFIXES
from ramet.files.config import named_in
from ramet.files.load import checked_file, load

_LISTED = 5
"""How many classes and functions a note names."""


def readable(model: Any) -> tuple[Any, str]:
    """Load a model to look at it, if it is a path; a file that `load` refuses as an outline.

    Returns:
        The model, and a note on what is not known of it; empty if everything is.

    Raises:
        FileError: If it is a file that cannot even be looked at.
    """
    if not isinstance(model, (str, Path)):
        return model, ""
    path = Path(model)
    try:
        return load(path), ""
    except FileError as error:
        return outline(path, error)


def outline(path: Path, reason: FileError) -> tuple[Any, str]:
    """Look at a file that was not loaded, and return the model and a note on what is not known.

    Raises:
        FileError: The reason, if the file names nothing foreign; or else, what is wrong with it.
    """
    if path.suffix not in ARCHIVE_SUFFIXES or not path.is_file():
        raise reason
    try:
        configs, _ = checked_file(path, trust=True)
    except FileError:
        raise reason from None
    foreign = [named for named in named_in(configs[0]) if named.foreign]
    if not foreign:
        raise reason
    from ramet.files.look import look  # noqa: PLC0415 it imports Keras

    model, _ = look(path)
    titles = [*dict.fromkeys(named.title for named in foreign)]
    listed = ", ".join(titles[:_LISTED])
    more = f" and {len(titles) - _LISTED} more" if len(titles) > _LISTED else ""
    are, their = ("is", "its") if len(titles) == 1 else ("are", "their")
    return model, (
        f"'{path}' is an outline: {listed}{more} {are} not part of Keras, and none of {their} code "
        "was loaded; what only that says is not known, such as masks, and what is marked with ?; "
        "if you trust the origin of the file, load it with trust=True"
    )
