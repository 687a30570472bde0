"""The exceptions that ramet raises.

    RametError
    ├── ModelError       (TypeError)   not a Keras model, or one without a graph
    ├── OptionError      (ValueError)  an option has an invalid value
    ├── GraphError       (ValueError)  a graph is inconsistent, or has no such layer or tensor
    ├── StateError       (ValueError)  weights do not exist, or cannot be initialized
    ├── CopyError        (TypeError)   an object cannot be copied
    │   └── DepthError   (RecursionError) something is nested too deeply
    ├── SourceError      (ValueError)  a model cannot be written as Python source
    ├── DifferenceError  (ValueError)  two models differ that should be the same
    ├── FileError        (ValueError)  a file cannot be loaded or saved safely
    ├── ExtraError       (ImportError) an optional package is not installed
    └── VersionError     (ImportError) the installed Keras lacks something that ramet needs

    UntestedKerasWarning (UserWarning) Keras is newer than the newest version tested

Every message says what is wrong, where, and what to do about it. Exceptions of
user code pass through unchanged, with a note that names the layer.
"""

import re

_LONGEST = 300
"""Characters of a word in a message; a longer one is cut."""


class RametError(Exception):
    """Base class of all exceptions that ramet raises."""

    def __init__(self, message: str = "") -> None:
        """Keep a message, without the ends of words that nobody would read, such as huge names."""
        super().__init__(re.sub(rf"\S{{{_LONGEST},}}", _cut, message))


def _cut(match: re.Match[str]) -> str:
    return f"{match[0][:_LONGEST]}..."


class ModelError(RametError, TypeError):
    """The argument is not a Keras model, or a model without a graph."""


class OptionError(RametError, ValueError):
    """An option has an invalid value."""


class GraphError(RametError, ValueError):
    """A graph is inconsistent, or does not have what an edit names."""


class StateError(RametError, ValueError):
    """Weights do not exist yet, or cannot be taken over or initialized."""


class CopyError(RametError, TypeError):
    """An object cannot be copied."""


class DepthError(CopyError, RecursionError):
    """Something is nested more deeply than the stack of the thread allows."""


class SourceError(RametError, ValueError):
    """A model cannot be written as Python source."""


class DifferenceError(RametError, ValueError):
    """Two models differ that should be the same."""


class FileError(RametError, ValueError):
    """A file does not contain a model that can be loaded, or a model cannot be saved there."""


class ExtraError(RametError, ImportError):
    """An optional package that a function needs is not installed."""


class VersionError(RametError, ImportError):
    """The installed version of Keras lacks something that ramet needs."""


class UntestedKerasWarning(UserWarning):
    """Keras is newer than the newest version that ramet was tested with."""
