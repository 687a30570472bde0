"""The only rooms that touch Keras: from a model to a Graph, and back."""
