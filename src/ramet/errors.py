"""Everything that ramet raises on purpose.

    RametError
    ├── ModelError       (TypeError)   not a Keras model, or one without a graph
    ├── OptionError      (ValueError)  an option has a value it cannot have
    ├── GraphError       (ValueError)  a graph that does not hold together
    ├── StateError       (ValueError)  the values that were asked for do not exist
    ├── CopyError        (TypeError)   an object that cannot be copied
    ├── SourceError      (ValueError)  a model that cannot be written as source
    ├── DifferenceError  (ValueError)  two models that should be the same are not
    ├── FileError        (ValueError)  a file that is no model, or must not be read or written
    └── ExtraError       (ImportError) an optional package is not installed

Every message says what is wrong, where, and what to do about it. An exception
that a user's own code raises passes through unchanged, with a note that names
the layer it came from.
"""


class RametError(Exception):
    """Base of all errors that ramet raises on purpose."""


class ModelError(RametError, TypeError):
    """The argument is not a Keras model, or not one that has a graph."""


class OptionError(RametError, ValueError):
    """An option has a value that it cannot have."""


class GraphError(RametError, ValueError):
    """A graph does not hold together: a cycle, a dangling reference."""


class StateError(RametError, ValueError):
    """The values that were asked for do not exist."""


class CopyError(RametError, TypeError):
    """An object cannot be copied."""


class SourceError(RametError, ValueError):
    """A model cannot be written as Python source."""


class DifferenceError(RametError, ValueError):
    """Two models that should be the same are not."""


class FileError(RametError, ValueError):
    """A file holds no model that can be loaded, or a model cannot be saved there."""


class ExtraError(RametError, ImportError):
    """An optional package that is needed for this is not installed."""
