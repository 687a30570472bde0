"""Random changes to files of models, and what may come of them: a model or one line, nothing else.

`make hunt` tries many; see `files/test_hostile.py`.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import random
import re
import resource
import signal
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
from keras.src.api_export import REGISTERED_NAMES_TO_OBJS

import attacks
import ramet
from ramet.errors import ModelError, SourceError
from ramet.files import load
from ramet.files.description import describe
from ramet.files.look import look
from watching import watched

SECONDS = 60
"""How much of the processor's time a file may take; most take less than one."""
MEMORY = 1 << 30
"""Bytes by which one file may raise the most that this process has used."""

CALLED = re.compile(
    r"keras\.(Input|Model|Sequential|Function|DTypePolicy)|float|slice|dict|np\.\w+|\w+"
    r"|\w+(\.get_layer\('.*'\))*\.(get_layer|set_vocabulary)"
    r"|keras\.(layers|ops|activations|initializers|regularizers|constraints|dtype_policies|models"
    r"|quantizers|random)\.(?!get$|deserialize$)\w+(\.from_config)?"
)
"""What source may call: parts of models, and layers that it has created."""

PUBLIC = sorted(name for name in REGISTERED_NAMES_TO_OBJS if "_tf_" not in name)

PAYLOADS: list[Any] = [
    attacks.PICKLED_LAMBDA,
    attacks.layer("TorchModuleWrapper", module=attacks.PICKLE),
    attacks.layer("TFSMLayer", filepath=attacks.MARK),
    attacks.layer("StringLookup", vocabulary="/etc/passwd"),
    attacks.layer("Lambda", function=attacks.PICKLED_LAMBDA),
    attacks.layer("Lambda", function=attacks.function("keras.utils", "get_file")),
    attacks.function("os", "system"),
    attacks.function("keras.config", "enable_unsafe_deserialization"),
    attacks.function("keras.ops", "while_loop"),
    attacks.function("keras.ops", "nonzero"),
    attacks.layer("KerasFileEditor", "keras.saving", filepath="/etc/passwd"),
    {"class_name": "__numpy__", "config": {"value": [1], "dtype": "S999999999"}},
    {"class_name": "__tensor__", "config": {"value": [[1, 2]], "dtype": "float32"}},
    {"class_name": "__slice__", "config": {"start": 0, "stop": 10**12, "step": 1}},
]

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3.5, 1e308, -1e-308, float("nan"), float("inf")),
    *(65535, 2**20, 2**24, 2**31 - 1, 2**31, 2**63, 10**18, 10**30, -(10**18)),
    *("", "x", "a\nb", "\x1b[2J", "\ud800", "relu", "same", "channels_first", "float16", "int8"),
    *("/etc/passwd", "http://127.0.0.1:9/x", "../../x", "open('PWNED','w')", "__import__", "self"),
    *([], {}, [None], [[]], [1, 2, 3], {"a": 1}, [2**20] * 3, ["x", 0, 0], [0] * 1000),
]


@dataclass
class Tally:
    """What came of the files."""

    files: int = 0
    loaded: int = 0
    refused: Counter[str] = field(default_factory=Counter)


class Fault(AssertionError):  # noqa: N818  it is what is hunted for
    """A file did what none may do."""


def slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a config, as a container and a key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from slots(value[key])


def _described(config: Any) -> list[dict[str, Any]]:
    inside = [box[key] for box, key in slots(config)]
    return [each for each in inside if isinstance(each, dict) and "class_name" in each]


def _replace(config: Any, draw: random.Random) -> None:
    box, key = draw.choice([*slots(config)])
    box[key] = draw.choice(VALUES)


def _resize(config: Any, draw: random.Random) -> None:
    numbers = [(box, key) for box, key in slots(config) if type(box[key]) is int]
    for box, key in draw.sample(numbers, min(len(numbers), draw.choice([1, 1, 2, 9]))):
        box[key] = draw.choice([value for value in VALUES if type(value) is int])


def _plant(config: Any, draw: random.Random) -> None:
    box, key = draw.choice([*slots(config)])
    box[key] = draw.choice(PAYLOADS)


def _rename(config: Any, draw: random.Random) -> None:
    described = draw.choice(_described(config))
    module, _, name = draw.choice(PUBLIC).rpartition(".")
    described["module"] = module
    if draw.random() < 0.3:
        described |= {"class_name": "function", "config": name}
    else:
        described["class_name"] = name
    described["registered_name"] = draw.choice([None, name, "x>y"])


def _misname(config: Any, draw: random.Random) -> None:
    described = draw.choice(_described(config))
    key = draw.choice(["module", "class_name", "registered_name", "config"])
    modules = ["os", "builtins", "keras", "keras.src.saving.saving_lib", "keras.layers.os", ""]
    described[key] = draw.choice([*VALUES, *modules])


def _remove(config: Any, draw: random.Random) -> None:
    box, key = draw.choice([*slots(config)])
    del box[key]


def _move(config: Any, draw: random.Random) -> None:
    places = [*slots(config)]
    (box, key), (source, at) = draw.choice(places), draw.choice(places)
    box[key] = json.loads(json.dumps(source[at]))


def _add(config: Any, draw: random.Random) -> None:
    described = draw.choice(_described(config))
    inner = described.get("config")
    names = [key for box, key in slots(config) if isinstance(key, str)]
    names += ["vocabulary", "build_config", "compile_config", "arguments", "module", "filepath"]
    target = inner if isinstance(inner, dict) and draw.random() < 0.7 else described
    target[draw.choice(names)] = draw.choice([*VALUES, *PAYLOADS])


def _nest(config: Any, draw: random.Random) -> None:
    box, key = draw.choice([*slots(config)])
    for _ in range(draw.choice([1, 10, 300])):
        box[key] = draw.choice([[box[key]], {"a": box[key]}])
        box, key = box[key], 0 if isinstance(box[key], list) else "a"


IN_CONFIGS: list[Callable[[Any, random.Random], None]] = [
    *(_replace, _resize, _plant, _rename, _misname, _remove, _move, _add, _nest)
]


def in_config(config: Any, draw: random.Random) -> bytes:
    """Change a config at a few places."""
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        try:
            draw.choice(IN_CONFIGS)(config, draw)
        except (IndexError, KeyError, TypeError, AttributeError, RecursionError):
            continue  # an earlier change left no such place
    text = json.dumps(config, ensure_ascii=True).encode()
    if draw.random() < 0.05:
        at = draw.randrange(len(text))
        text = text[:at] + bytes([draw.randrange(256)]) + text[at + 1 :]
    return text


def in_bytes(data: bytes, draw: random.Random) -> bytes:
    """Change a few bytes, or cut the end off."""
    changed = bytearray(data)
    if draw.random() < 0.3:
        return data[: draw.randrange(len(data))]
    for _ in range(draw.choice([1, 4, 50])):
        changed[draw.randrange(len(data))] = draw.choice([0, 1, 255, draw.randrange(256)])
    return bytes(changed)


def changed(base: bytes, other: bytes, draw: random.Random) -> bytes:
    """Change a file of a model; some changes take a part of another."""
    if draw.random() < 0.1:
        return in_bytes(base, draw)
    with zipfile.ZipFile(io.BytesIO(base)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    what = draw.random()
    if what < 0.75:
        config = json.loads(members["config.json"])
        members["config.json"] = in_config(config, draw)
    elif what < 0.85:
        members["model.weights.h5"] = in_bytes(members["model.weights.h5"], draw)
    elif what < 0.9:
        with zipfile.ZipFile(io.BytesIO(other)) as archive:
            members["model.weights.h5"] = archive.read("model.weights.h5")
    else:
        name = draw.choice(["../x", "/x", "assets/x", "a\\b", "C:x", "config.json ", "x" * 300])
        members[name] = draw.choice([b"", b"x" * 100, bytes(1 << 20)])
        members.pop(draw.choice([*members]), None)
    written = io.BytesIO()
    method = draw.choice([zipfile.ZIP_STORED] * 8 + [zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return written.getvalue()


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """Fail if what happens meanwhile takes too long."""

    def give_up(*_: Any) -> None:
        raise Fault(f"it took more than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _state() -> tuple[Any, ...]:
    return (
        *(keras.config.floatx(), keras.config.epsilon(), keras.config.image_data_format()),
        keras.config.dtype_policy().name,
        *(sorted(keras.saving.get_custom_objects()), Path.cwd()),
    )


def attempt(path: Path, read: Callable[[Path], Any], tally: Tally) -> None:
    """Read a file. Raise a `Fault` unless it is a model or refused, and nothing else happens."""
    _forget_most()
    before, most = _state(), _most_memory()
    started = time.process_time()
    with watched(path) as events, _bounded():
        try:
            read(path)
            tally.loaded += 1
        except ramet.FileError as error:
            text = str(error)
            if "\n" in text or not text.isprintable() or len(text) > 1000:
                raise Fault(f"the message is not a line: {text!a}") from error
            tally.refused[" ".join(text.split("'")[2].split()[:3])] += 1
        except Fault:
            raise
        except BaseException as error:
            raise Fault(f"{type(error).__name__}: {error}") from error
    if events:
        raise Fault(f"it did more than to read the file: {events[:3]}")
    if _state() != before:
        raise Fault("it changed settings")
    if _most_memory() - most > MEMORY:
        raise Fault(f"it took {(_most_memory() - most) >> 20} MiB")
    if time.process_time() - started > SECONDS:
        raise Fault("it took too long")


def _most_memory() -> int:
    """Return the most memory in use since the last call of `_forget_most`."""
    with contextlib.suppress(OSError):  # of a system without this file
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _forget_most() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def emitted(path: Path) -> None:
    """Load a file and write its model as source, which may call what models are made of."""
    try:
        source = ramet.emit(load(path), check=False)
    except (SourceError, ModelError):
        return
    tree = ast.parse(source)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {ast.unparse(each) for each in calls if not isinstance(each, ast.Call)}
    foreign = {name for name in called - own if not CALLED.fullmatch(name)}
    if foreign or not source.isascii():
        raise Fault(f"the source calls {sorted(foreign)}")


def play(seed: int, bases: list[bytes], folder: Path, tally: Tally) -> None:
    """Change a file at random and read it."""
    draw = random.Random(seed)
    path = folder / "m.keras"
    path.write_bytes(changed(draw.choice(bases), draw.choice(bases), draw))
    tally.files += 1
    for read in (load, describe, emitted, look):
        attempt(path, read, tally)
