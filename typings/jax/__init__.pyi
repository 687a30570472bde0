# JAX is typed, but not to strict standards: names as common as `jax.device_put` are partly unknown.
# The few that ramet uses are Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
