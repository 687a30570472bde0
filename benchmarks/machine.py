"""The versions and the machine that figures belong to."""

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ramet.copying import core

PACKAGES = ("ramet", "keras", "jax", "tensorflow", "tensorflow-cpu", "torch", "numpy")


def versions() -> dict[str, str]:
    """List the versions of Python and of packages, and which core of the copier is used."""
    installed = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    installed["core"] = "Python" if core.Core is core.PythonCore else "C"
    return installed


def machine() -> dict[str, Any]:
    """Return the processor, its cores and the memory, in words."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
    }


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        match = re.search(r"^model name\s*: (.*)$", listing.read_text(), flags=re.MULTILINE)
        if match is not None:
            return match[1]
    return platform.processor()
