"""Prune half of all channels by ramet and by Torch-Pruning: what is left, and how fast it is.

`KERAS_BACKEND=torch python -m benchmarks.pruning` measures a ResNet50 and a small vision
transformer: Keras models by ramet, the same models in plain PyTorch by Torch-Pruning, where it is
installed. Each way has a process of its own, in which a model before and after takes turns. Times
are processor seconds of one thread, which say the same on a machine that others use, too.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

MODELS = ("ResNet50", "ViT")
SIZE, ROUNDS = 224, 4


class Pruned:
    """A model before and after, with what is known of both."""

    def __init__(
        self, before: Any, after: Any, seconds: list[float], counts: dict[str, Any]
    ) -> None:
        """Keep what was measured."""
        self.before, self.after = before, after
        self.seconds, self.counts = seconds, counts


def by_ramet(name: str) -> Pruned:
    """Prune a Keras model; ramet copies it."""
    import keras

    import ramet
    from benchmarks.plain_vit import keras_twin

    model = keras.applications.ResNet50(weights=None) if name == "ResNet50" else keras_twin()
    after, seconds = timed(lambda: ramet.compress.prune(model, ratio=0.5).build())
    profiles = ramet.profile(model), ramet.profile(after)
    counts = {what: [getattr(each, what) for each in profiles] for what in ("macs", "params")}
    return Pruned(model, after, seconds, counts)


def by_ramet_channels_first(name: str) -> Pruned:
    """Prune a Keras model whose images have the layout of PyTorch."""
    import keras

    keras.config.set_image_data_format("channels_first")
    return by_ramet(name)


def by_torch_pruning(name: str) -> Pruned:
    """Prune a plain PyTorch model in place."""
    import torch

    from benchmarks.plain_resnet import ResNet50
    from benchmarks.plain_vit import VisionTransformer

    tp: Any = import_module("torch_pruning")
    example = torch.randn(1, 3, SIZE, SIZE)

    def made() -> Any:
        return (ResNet50() if name == "ResNet50" else VisionTransformer()).eval()

    def pruned(model: Any) -> Any:
        options: dict[str, Any] = {}
        heads = [] if name == "ResNet50" else [block.attention for block in model.blocks]
        if name == "ResNet50":
            options["ignored_layers"] = [model[-2]]
        else:
            options["ignored_layers"] = [model.head]
            options["num_heads"] = {each.qkv: each.heads for each in heads}
            options["prune_head_dims"], options["prune_num_heads"] = True, False
            options["unwrapped_parameters"] = [(model.positions, 2)]
        importance = tp.importance.GroupMagnitudeImportance(p=2)
        pruner = tp.pruner.BasePruner(
            model, example, importance=importance, pruning_ratio=0.5, **options
        )
        pruner.step()
        for each in heads:
            each.heads = pruner.num_heads[each.qkv]
            each.head_width = each.qkv.out_features // (3 * each.heads)
        return model

    model = made()
    models = iter([made() for _ in range(ROUNDS)])
    after, seconds = timed(lambda: pruned(next(models)))
    pairs = [tp.utils.count_ops_and_params(each, example) for each in (model, after)]
    counts = {"macs": [int(m) for m, _ in pairs], "params": [int(p) for _, p in pairs]}
    return Pruned(model, after, seconds, counts)


WAYS = {
    "ramet": by_ramet,
    "ramet, channels first": by_ramet_channels_first,
    "torch-pruning": by_torch_pruning,
}


def timed(act: Callable[[], Any]) -> tuple[Any, list[float]]:
    """Return what a function returns, and how long each of several rounds takes."""
    seconds: list[float] = []
    result = None
    for _ in range(ROUNDS):
        start = time.process_time()
        result = act()
        seconds.append(time.process_time() - start)
    return result, seconds


def inference(pruned: Pruned, way: str, batch: int) -> list[float]:
    """Return how long a batch takes before and after, the best of several in turn."""
    import torch

    shape = (batch, SIZE, SIZE, 3) if way == "ramet" else (batch, 3, SIZE, SIZE)
    images = torch.randn(shape)
    best = [float("inf")] * 2
    with torch.inference_mode():
        for number in range(ROUNDS + 1):
            for place, model in enumerate((pruned.before, pruned.after)):
                start = time.process_time()
                model(images)
                if number:  # The first is a warm-up.
                    best[place] = min(best[place], time.process_time() - start)
    return best


def measure(way: str, name: str, batches: list[int]) -> dict[str, Any]:
    """Measure one way with one model in this process."""
    import torch

    torch.set_num_threads(1)
    pruned = WAYS[way](name)
    times = {str(batch): inference(pruned, way, batch) for batch in batches}
    return {"prune_s": pruned.seconds, **pruned.counts, "inference_s": times}


def main() -> None:
    """Measure every way with every model in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=[*WAYS], help="one, in this process, as JSON")
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--batches", type=int, nargs="+", default=[8])
    options = parser.parse_args()
    if options.way is not None:
        print(json.dumps(measure(options.way, options.model or MODELS[0], options.batches)))
        return
    batches = [*map(str, options.batches)]
    head = " ".join(f"{f'batch {batch}':>22}" for batch in batches)
    print(f"{'':<24} {'MACs':>16} {'parameters':>18} {'prune, first, best':>20} {head}")
    for name in (options.model,) if options.model else MODELS:
        for way in WAYS if name == "ResNet50" else ("ramet", "torch-pruning"):
            command = [sys.executable, "-m", "benchmarks.pruning", "--way", way, "--model", name]
            done = subprocess.run(
                [*command, "--batches", *batches], capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(f"{name}, {way}: not run: {done.stderr.strip().splitlines()[-1]}")
                continue
            print(line(f"{name}, {way}", json.loads(done.stdout.splitlines()[-1])), flush=True)


def line(title: str, found: dict[str, Any]) -> str:
    """Return what was measured on one line."""
    macs = " → ".join(f"{count / 1e9:.2f} G" for count in found["macs"])
    params = " → ".join(f"{count / 1e6:.2f} M" for count in found["params"])
    seconds = found["prune_s"]
    runs = [
        f"{before:.2f} → {after:.2f} s ({before / after:.2f})"
        for before, after in found["inference_s"].values()
    ]
    prune = f"{seconds[0]:.2f} s, {min(seconds):.2f} s"
    return f"{title:<24} {macs:>16} {params:>18} {prune:>20} {' '.join(f'{r:>22}' for r in runs)}"


if __name__ == "__main__":
    main()
