"""Prove what edits did to a model, and keep the proof beside the file."""

import keras
import numpy as np
from keras import layers

import ramet


def main() -> None:
    """Prepare a classifier for fine-tuning, and prove that it still predicts the same."""
    model = keras.applications.MobileNetV2((32, 32, 3), alpha=0.35, weights=None, classes=10)
    graph = ramet.trace(model)
    graph = graph.select(name="block_1_*").freeze()
    graph = graph.insert_after("global_average_pooling2d", layers.Dropout(0.3, name="drop"))
    graph = graph.rename({"predictions": "classes"})

    proof = ramet.prove(graph)
    print(proof)
    proof.raise_if_broken()
    assert [each.promised for each in proof.edits] == [
        "inference-equal",
        "inference-equal",
        "exact",
    ]

    # An edit that changes the function promises nothing, and the proof says by how much.
    changed = graph.configure("out_relu", max_value=1.0)
    clipped = ramet.prove(changed, data=np.ones((4, 32, 32, 3), "float32"))
    assert clipped.ok, "no promise is broken"
    assert clipped.edits[-1].promised == "changed"

    stored = proof.to_json()
    again = ramet.results.Proof.from_json(stored)
    assert again.matches(model), "the proof is about this model"
    model.layers[-1].bias.assign(np.ones(10, "float32"))
    assert not again.matches(model), "the proof is not about other weights"
    print(f"kept: {len(stored) // 1000} kB of JSON")


if __name__ == "__main__":
    main()
