"""Where masks come from, go, and get lost: read off a graph, no layer is called."""
