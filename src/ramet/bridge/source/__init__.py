"""A graph written as Python source that makes the model again."""
