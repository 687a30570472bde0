"""How long copying a model takes, by ramet and by the other ways; run by `make bench`."""
