"""A graph written as Python source that re-creates the model."""
