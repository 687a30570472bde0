"""What pyproject.toml has no place for: the part of ramet that is written in C."""

import os

from setuptools import Extension, setup

# Optional: without a compiler, the same in Python is used (core.py).
core = Extension(
    "ramet.copying._core",
    ["src/ramet/copying/_core.c"],
    depends=["src/ramet/copying/_memo.h"],
    optional=True,
)

# With RAMET_PURE_WHEEL, the wheel holds no compiled part and fits every platform.
setup(ext_modules=[] if os.environ.get("RAMET_PURE_WHEEL") else [core])
