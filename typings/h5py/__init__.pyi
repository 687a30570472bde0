# h5py ships no types. ramet reads one attribute of a file with it.
from typing import Any

def __getattr__(name: str) -> Any: ...
