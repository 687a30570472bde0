"""How long it takes to copy a model, with ramet and with other methods; run by `make bench`."""
