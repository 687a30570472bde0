"""Deeper networks that compute what the shallow ones do."""
