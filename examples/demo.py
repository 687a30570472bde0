"""Clone the model that `clone_model` refuses, and a ResNet50; prove both; time both.

Run it with `make demo`, or with any Keras backend of your own.
"""

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
from keras import layers
from rich.console import Console
from rich.table import Table

import ramet


class Swap(layers.Layer):
    """Swaps its two inputs."""

    def call(self, inputs: list[Any]) -> list[Any]:
        """Return the second input, then the first."""
        return [inputs[1], inputs[0]]


def historic_model() -> keras.Model:
    """Build the model that this project began with: a layer with two outputs and no mask."""
    inputs = keras.Input((4,), name="x")
    halves = layers.Lambda(lambda x: [x[:, :2], x[:, 2:]], name="split")(inputs)
    first, second = Swap(name="swap")(halves)
    return keras.Model(inputs, [layers.Dense(3, name="dense")(first), second], name="historic")


def keras_clone(model: keras.Model) -> keras.Model:
    """Copy a model the usual way."""
    twin = keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    return twin


def seconds(function: Callable[[keras.Model], Any], model: keras.Model) -> float:
    """Return the best of three times."""
    times: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        function(model)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Clone, verify and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--svg", help="also save what is printed as a picture")
    options = parser.parse_args()
    console = Console(record=True, width=96)

    historic = historic_model()
    console.print(f"[bold]1. The historic model[/bold]  (Keras {keras.__version__}, "
                  f"{keras.backend.backend()})\n")  # fmt: skip
    console.print(str(ramet.trace(historic)), highlight=False, markup=False)
    try:
        keras_clone(historic)
    except (ValueError, TypeError) as error:
        console.print(f"\nkeras.models.clone_model: [red]{str(error)[:60]}...[/red]")
    console.print("\nramet.verify(historic, ramet.clone(historic))")
    console.print(ramet.verify(historic, ramet.clone(historic)))

    console.print("\n[bold]2. ResNet50[/bold]\n")
    resnet = keras.applications.ResNet50(weights=None)
    console.print(ramet.verify(resnet, ramet.clone(resnet)))

    table = Table(title="time to copy ResNet50, best of 3", title_justify="left")
    for column in ("how", "ms", "ratio"):
        table.add_column(column, justify="left" if column == "how" else "right")
    rows = [
        ("ramet.clone(model)", seconds(ramet.clone, resnet)),
        ("clone_model + set_weights", seconds(keras_clone, resnet)),
    ]
    for name, taken in rows:
        table.add_row(name, f"{taken * 1000:.0f}", f"{taken / rows[0][1]:.1f}")
    console.print(table)
    if options.svg:
        picture = console.export_svg(title="make demo")
        # Without the web fonts that rich would make the picture load.
        picture = re.sub(r"@font-face {.*?}|<!--.*?-->", "", picture, flags=re.DOTALL)
        Path(options.svg).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
