# TensorFlow ships no types; pyright cannot follow its lazy imports. Every name is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
