# igraph is typed in part: the methods that its C core adds to Graph are unknown. Every name is Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
