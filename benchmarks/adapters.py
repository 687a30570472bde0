"""Time adapters: added to a BERT-like model of 100 layers and merged, by ramet, Keras and PEFT.

`python -m benchmarks.adapters` measures the backend in `KERAS_BACKEND`: each way in a process of
its own, the first time with the growth of its peak memory, and then four times more on new models,
of which the best counts. PEFT is measured where it is installed, on PyTorch.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any

WIDTH, BLOCKS, VOCABULARY, RANK = 256, 14, 8000, 8
"""Seven layers a block and two at each end make 102."""

ROUNDS = 4
"""How often each way is repeated after the first time."""


def bert() -> Any:
    """Make a BERT-like model."""
    import keras
    from keras import layers

    x = tokens = keras.Input((64,), dtype="int32")
    x = layers.LayerNormalization()(layers.Embedding(VOCABULARY, WIDTH)(x))
    for block in range(BLOCKS):
        y = layers.MultiHeadAttention(4, WIDTH // 4, name=f"attention_{block}")(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, y]))
        y = layers.Dense(4 * WIDTH, activation="gelu", name=f"up_{block}")(x)
        y = layers.Dropout(0.1)(layers.Dense(WIDTH, name=f"down_{block}")(y))
        x = layers.LayerNormalization()(layers.Add()([x, y]))
    return keras.Model(tokens, layers.Dense(2)(layers.GlobalAveragePooling1D()(x)))


def by_ramet(model: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Add and merge adapters by ramet, which copies the model each time."""
    from ramet import adapt

    at = ["**/query", "**/value", "up_*", "down_*"]
    return lambda: adapt.lora(model, at, rank=RANK).build(), lambda a: adapt.merge(a).build()


def by_sharing(model: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Add adapters by ramet on the base's own variables, which are frozen; merging copies."""
    from ramet import adapt

    at = ["**/query", "**/value", "up_*", "down_*"]
    model.trainable = False
    return (
        lambda: adapt.lora(model, at, rank=RANK).build(weights="share"),
        lambda a: adapt.merge(a).build(),
    )


def by_keras(model: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Add adapters by `enable_lora`, in place; Keras merges by saving and loading."""
    import keras

    def add() -> Any:
        for layer in model._flatten_layers():
            if layer.name in ("query", "value") or layer.name.startswith(("up_", "down_")):
                layer.enable_lora(RANK)
        return model

    def merge(adapted: Any) -> Any:
        with TemporaryDirectory() as folder:
            adapted.save(f"{folder}/merged.keras")
            return keras.models.load_model(f"{folder}/merged.keras")

    return add, merge


def by_peft(model: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Add and merge adapters by PEFT, in place, on a PyTorch model of the same shapes."""
    del model
    from torch import nn

    peft: Any = import_module("peft")

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            names = ("query", "key", "value", "output")
            self.attention = nn.ModuleDict({name: nn.Linear(WIDTH, WIDTH) for name in names})
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

    network = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *(Block() for _ in range(BLOCKS)))
    config = peft.LoraConfig(r=RANK, target_modules=["query", "value", "up", "down"])
    return lambda: peft.get_peft_model(network, config), lambda a: a.merge_and_unload()


WAYS = {"ramet": by_ramet, "sharing": by_sharing, "keras": by_keras, "peft": by_peft}


def peak() -> float:
    """Return the peak memory of this process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(way: str) -> dict[str, float]:
    """Measure one way in this process."""
    first = once(way)
    again = [once(way) for _ in range(ROUNDS)]
    best = {f"{key}_again": min(one[key] for one in again) for key in ("add_s", "merge_s")}
    return first | best


def once(way: str) -> dict[str, float]:
    """Add adapters to a new model, and merge them."""
    add, merge = WAYS[way](bert())
    before, start = peak(), time.perf_counter()
    adapted = add()
    added, grown = time.perf_counter(), peak()
    merge(adapted)
    return {
        "add_s": added - start,
        "merge_s": time.perf_counter() - added,
        "add_mb": grown - before,
        "peak_mb": peak() - before,
    }


def main() -> None:
    """Measure every way in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=[*WAYS], help="one, in this process, as JSON")
    way = parser.parse_args().way
    if way is not None:
        print(json.dumps(measure(way)))
        return
    names = ("add", "merge", "add again", "again", "add", "both")
    columns = " ".join(f"{name:>10}" for name in names)
    print(f"{os.environ.get('KERAS_BACKEND', 'tensorflow')}: {columns}")
    for name in WAYS:
        command = [sys.executable, "-m", "benchmarks.adapters", "--way", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{name}: not run: {done.stderr.strip().splitlines()[-1]}")
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        print(
            f"{name:>8} {found['add_s']:>8.2f} s {found['merge_s']:>8.2f} s"
            f" {found['add_s_again']:>8.3f} s {found['merge_s_again']:>8.3f} s"
            f" {found['add_mb']:>7.0f} MB {found['peak_mb']:>7.0f} MB"
        )


if __name__ == "__main__":
    main()
