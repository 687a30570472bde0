"""`make release-check`: everything that a release needs, except the upload.

Builds the source archive, the wheel without the part in C and the wheel for this platform; checks
their metadata and contents; installs each in a new environment and uses it there.

    python tests/release.py --backend jax
"""

import argparse
import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
HOME = ROOT / "build" / "release"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = PROJECT["version"]
PACKAGES = {"jax": "jax", "tensorflow": "tensorflow-cpu", "torch": "torch"}

USE = """
import numpy as np, keras, ramet
from keras import layers
x = keras.Input((8, 8, 3))
y = layers.BatchNormalization(name="norm")(layers.Conv2D(4, 3, name="conv")(x))
model = keras.Model(x, layers.Dense(2, name="head")(layers.Flatten()(y)))
assert ramet.verify(model, ramet.clone(model)).ok
graph = ramet.trace(model).replace("norm", layers.GroupNormalization(2, name="norm"))
assert graph.build()(np.zeros((1, 8, 8, 3))).shape == (1, 2)
model.save("model.keras")
print(ramet.__version__)
"""


def run(*command: object, cwd: Path = ROOT, **environment: str) -> str:
    """Runs a command, and ends the check with its output if it fails."""
    words = [str(part) for part in command]
    done = subprocess.run(  # noqa: S603 the build tools and what they built
        words,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"failed: {' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


def say(text: str) -> None:
    """Prints one step."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def check(condition: object, otherwise: str) -> None:
    """Ends the check if something does not hold."""
    if not condition:
        sys.exit(f"failed: {otherwise}")


def check_texts() -> None:
    """Checks that all files that name the version agree, and that README needs no checkout."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    check(f"## [{VERSION}]" in changelog, f"CHANGELOG.md has no section [{VERSION}]")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    check(f"version: {VERSION}\n" in citation, f"CITATION.cff is not of version {VERSION}")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", readme)
    relative = [link for link in links if not link.startswith(("https://", "#"))]
    check(not relative, f"README.md has links that only work in a checkout: {relative}")
    urls = set(PROJECT["urls"].values())
    check(all(url.startswith("https://") for url in urls), "a URL of the project is not https")


def build() -> tuple[Path, Path, Path]:
    """Builds the source archive, and from it both wheels."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST)
    (source,) = DIST.glob("*.tar.gz")
    unpacked = HOME / "source"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(source) as archive:
        archive.extractall(unpacked, filter="data")
    (folder,) = unpacked.iterdir()
    for pure in (
        "1",
        "",
    ):  # The platform wheel last, so that nothing compiled is left for the pure.
        run(
            sys.executable,
            "-m",
            "build",
            "--wheel",
            "--outdir",
            DIST,
            folder,
            RAMET_PURE_WHEEL=pure,
        )
    wheels = [*DIST.glob("*.whl")]
    (pure_wheel,) = [wheel for wheel in wheels if wheel.name.endswith("-none-any.whl")]
    platform = [wheel for wheel in wheels if wheel != pure_wheel]
    check(platform, "no wheel for this platform; is there a C compiler?")
    return source, pure_wheel, platform[0]


def check_source(source: Path) -> None:
    """Checks that the source archive holds what a packager needs to build, test and document."""
    with tarfile.open(source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    tracked = run("git", "ls-files").splitlines()
    left_out = (".ci/", ".github/", ".gitignore", ".pre-commit-config.yaml")
    missing = [name for name in tracked if name not in held and not name.startswith(left_out)]
    check(not missing, f"the source archive lacks {missing[:10]} ({len(missing)} files)")


def check_wheel(wheel: Path, *, pure: bool) -> None:
    """Checks contents and metadata of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (path,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(path))
    compiled = [name for name in names if name.endswith((".so", ".pyd"))]
    check(bool(compiled) != pure, f"{wheel.name} holds {compiled or 'nothing compiled'}")
    for name in ("py.typed", "showing/page-layout.js", "showing/page.css", "showing/page.html"):
        check(f"ramet/{name}" in names, f"{wheel.name} lacks {name}")
    check(not [n for n in names if not n.startswith("ramet")], f"{wheel.name} holds other packages")
    check(metadata["Version"] == VERSION, f"{wheel.name} is of version {metadata['Version']}")
    check(metadata.get_all("Project-URL"), f"{wheel.name} names no URLs")


def check_installed(wheel: Path, backend: str, *, compiled: bool) -> None:
    """Installs a wheel in a new environment, and uses it there."""
    home = HOME / ("platform" if compiled else "pure")
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    pins = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "-q", "-c", pins, wheel, PACKAGES[backend])
    version = run(python, "-c", USE, cwd=home, KERAS_BACKEND=backend).split()[-1]
    check(version == VERSION, f"the installed ramet says that it is {version}")
    ramet = home / "bin" / "ramet"
    doctor = run(ramet, "doctor", cwd=home, KERAS_BACKEND=backend)
    check(("Python, two" in doctor) != compiled, f"another core than expected:\n{doctor}")
    shown = run(ramet, "show", "model.keras", cwd=home)
    check("conv" in shown, f"ramet show printed:\n{shown}")
    run(ramet, "clone", "model.keras", "twin.keras", cwd=home)
    run(ramet, "verify", "model.keras", "twin.keras", cwd=home)


def main() -> None:
    """Runs all checks, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=PACKAGES, default="jax")
    backend = parser.parse_args().backend
    HOME.mkdir(parents=True, exist_ok=True)
    say(f"ramet {VERSION}: texts")
    check_texts()
    say("source archive and wheels")
    source, pure, platform = build()
    check_source(source)
    check_wheel(pure, pure=True)
    check_wheel(platform, pure=False)
    run(sys.executable, "-m", "twine", "check", "--strict", source, pure, platform)
    for wheel in (pure, platform):
        say(f"installed: {wheel.name}")
        check_installed(wheel, backend, compiled=wheel is platform)
    say(f"ready to be uploaded: {', '.join(sorted(path.name for path in DIST.iterdir()))}")


if __name__ == "__main__":
    main()
