# Keras ships no types, and what pyright infers from its source is mostly wrong or unknown.
# Here every Keras name is Any, which keeps strict checking meaningful for the rest of ramet.
from typing import Any

def __getattr__(name: str) -> Any: ...
