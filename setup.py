"""What pyproject.toml has no place for: the part of ramet that is written in C."""

from setuptools import Extension, setup

# Optional: without a compiler, the same in Python is used (core.py).
core = Extension(
    "ramet.bridge._core",
    ["src/ramet/bridge/_core.c"],
    depends=["src/ramet/bridge/_memo.h"],
    optional=True,
)

setup(ext_modules=[core])
