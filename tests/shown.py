"""Small models that have everything that `show` shows."""

import keras
from keras import layers

HOSTILE = "</script><script>alert(1)//"


def matcher() -> keras.Model:
    """Nested, shared, masked, and with several inputs and outputs."""
    inside = keras.Input((None, 8), name="tokens")
    hidden = layers.LSTM(4, return_sequences=True, name="lstm")(inside)
    encoder = keras.Model(inside, layers.Dense(4, name="proj")(hidden), name="encoder")
    question = keras.Input((6,), dtype="int32", name="question")
    answer = keras.Input((9,), dtype="int32", name="answer")
    embed = layers.Embedding(20, 8, mask_zero=True, name="embed")
    pool = layers.GlobalAveragePooling1D(name="pool")
    both = layers.Concatenate(name="both")(
        [pool(encoder(embed(question))), pool(encoder(embed(answer)))]
    )
    heads = {
        "score": layers.Dense(1, name="score")(both),
        "topic": layers.Dense(5, name="topic")(both),
    }
    return keras.Model([question, answer], heads, name="matcher")


@keras.saving.register_keras_serializable("tests")
class Noted(layers.Layer):
    """A layer whose config says what it is told to."""

    def __init__(self, note: str, **options):
        super().__init__(**options)
        self.note = note

    def call(self, x):
        return x

    def get_config(self):
        return {**super().get_config(), "note": self.note}


def hostile() -> keras.Model:
    """Names and configs that try to leave the place that they are written to."""
    start = keras.Input((3,), name="x")
    named = layers.Dense(2, name="named")
    noted = Noted(HOSTILE, name="noted")
    model = keras.Model(start, noted(named(start)), name="hostile")
    # Keras and TensorFlow look at names in constructors and calls only.
    named.name, model.name = f"[red]{HOSTILE}", "<i>hostile</i>"
    return model
