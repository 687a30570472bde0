"""Cloning a model that another thread trains."""

import threading
import time

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet.backends.values import to_numpy

rng = np.random.default_rng(7)
DATA, TARGETS = rng.random((64, 4), "float32"), rng.random((64, 2), "float32")


def compiled():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(8), layers.Dense(2)], name="model")
    model.compile(optimizer="adam", loss="mse")
    model.fit(DATA, TARGETS, verbose=0)
    return model


def test_a_model_that_another_thread_trains_is_not_cloned():
    """The clone is made while a step runs: it says so, or it is that of one step."""
    model, failed = compiled(), []
    started, stop = threading.Event(), threading.Event()

    class Until(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002 Keras passes them
            started.set()
            if stop.is_set():
                self.model.stop_training = True

    def train():
        model.fit(DATA, TARGETS, epochs=10_000, batch_size=8, verbose=0, callbacks=[Until()])

    thread = threading.Thread(target=train)
    thread.start()
    assert started.wait(120)
    until = time.monotonic() + 60  # A busy machine may let a few copies through between two steps.
    for _ in range(1000):
        if len(failed) == 20 or time.monotonic() > until:
            break
        try:
            ramet.clone(model)
        except ramet.errors.StateError as error:
            failed.append(str(error))
    stop.set()
    thread.join()
    assert failed
    assert all("model 'model' is being trained" in message for message in failed)
    assert ramet.verify(model, ramet.clone(model)).ok


def test_a_write_during_the_copy_is_noticed():
    model = compiled()

    class Writes:
        def __deepcopy__(self, memo):
            model.optimizer.iterations.assign_add(1)
            return self

    vars(model.layers[0])["writes"] = Writes()
    with pytest.raises(ramet.errors.StateError, match=r"'model' is being trained.*clone it before"):
        ramet.clone(model)


def test_an_error_of_user_code_is_still_its_own():
    model = compiled()

    class Fails:
        def __deepcopy__(self, memo):
            raise ValueError("mine")

    vars(model.layers[0])["fails"] = Fails()
    with pytest.raises(ValueError, match="mine"):
        ramet.clone(model)


def test_callbacks_may_clone_at_the_end_of_an_epoch():
    model, copies = compiled(), []

    class Keep(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):  # noqa: ARG002 the same
            copies.append(ramet.clone(self.model))

    model.fit(DATA, TARGETS, epochs=2, verbose=0, callbacks=[Keep()])
    assert [int(to_numpy(copy.optimizer.iterations)) for copy in copies] == [4, 6]
