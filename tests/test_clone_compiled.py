"""Models that hold functions which they compiled: for generating, for training, by hand."""

import functools

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.backends.values import to_numpy

rng = np.random.default_rng(7)
DATA, TARGETS = rng.random((8, 4), "float32"), rng.random((8, 2), "float32")


class Generator(keras.Model):
    """A model that compiles a function of its own the first time it is needed."""

    def __init__(self):
        super().__init__(name="generator")
        self.dense = layers.Dense(4)
        self.seeds = keras.random.SeedGenerator(5)
        self.generate_function = None

    def call(self, x):
        return self.dense(x)

    def generate_step(self, x):
        return self.dense(x) + keras.random.uniform((4,), seed=self.seeds)

    def make_generate_function(self):
        if self.generate_function is None:
            make = {"jax": self._on_jax, "tensorflow": self._on_tensorflow, "torch": self._on_torch}
            self.generate_function = make[keras.backend.backend()]()
        return self.generate_function

    def _on_jax(self):
        import jax

        @functools.partial(jax.jit, static_argnames=["steps"])
        def compiled(x, steps, state):
            mapping = zip(self.variables, state, strict=True)
            with keras.StatelessScope(state_mapping=mapping) as scope:
                for _ in range(steps):
                    x = self.generate_step(x)
            return x, [scope.get_current_value(variable) for variable in self.variables]

        def wrapped(x, steps=2):
            x, state = compiled(x, steps, [variable.value for variable in self.variables])
            for variable, value in zip(self.variables, state, strict=True):
                if value is not None:
                    variable.assign(value)
            return x

        return wrapped

    def _on_tensorflow(self):
        import tensorflow as tf

        return tf.function(self.generate_step, jit_compile=True)

    def _on_torch(self):
        import torch

        def wrapped(x):
            with torch.no_grad():
                return self.generate_step(x)

        return wrapped

    def generate(self, x):
        return to_numpy(self.make_generate_function()(ops.convert_to_tensor(x)))


def test_a_model_that_has_generated_is_cloned():
    model = Generator()
    model(DATA)
    model.generate(DATA)
    twin = ramet.clone(model)
    assert ramet.verify(model, twin).ok
    assert twin.generate_function is not model.generate_function
    for _ in range(2):
        assert np.array_equal(model.generate(DATA), twin.generate(DATA))
    twin.dense.kernel.assign(twin.dense.kernel * 2)
    assert not np.array_equal(model.generate(DATA), twin.generate(DATA))


def test_a_compiled_method_and_a_compiled_closure_are_bound_to_the_copy(backend):
    class Fast(layers.Layer):
        def build(self, _):
            self.scale = self.add_weight(shape=(1,), initializer="ones")
            self.method = self._compile(self.slow)
            self.closure = self._compile(lambda x: x * self.scale.value)

        def _compile(self, function):
            if backend == "jax":
                import jax

                return jax.jit(function)
            if backend == "tensorflow":
                import tensorflow as tf

                return tf.function(function)
            import torch

            return torch.compile(function, backend="eager")

        def slow(self, x):
            return x * self.scale.value

        def call(self, x):
            return x

    model = keras.Sequential([keras.Input((4,)), Fast(name="fast")])
    twin = ramet.clone(model)
    twin.layers[0].scale.assign([3.0])
    x = ops.ones((1, 4))
    for name in ("method", "closure"):
        old, new = (getattr(each.layers[0], name)(x) for each in (model, twin))
        assert float(to_numpy(old)[0, 0]) == 1
        assert float(to_numpy(new)[0, 0]) == 3


def test_derivative_rules_of_jax_are_bound_to_the_copy(backend):
    if backend != "jax":
        pytest.skip("JAX's derivative rules")
    import jax

    class Ruled(layers.Layer):
        def build(self, _):
            self.scale = self.add_weight(shape=(1,), initializer="ones")
            self.rule = jax.custom_vjp(lambda x: x * self.scale.value)
            self.rule.defvjp(lambda x: (self.rule(x), None), lambda _, g: (g * 7,))
            self.free = jax.custom_vjp(lambda x: x)

        def call(self, x):
            return x

    model = keras.Sequential([keras.Input((4,)), Ruled()])
    twin = ramet.clone(model).layers[0]
    twin.scale.assign([3.0])
    assert twin.rule(jax.numpy.ones(1))[0] == 3
    assert jax.grad(lambda x: twin.rule(x)[0])(jax.numpy.ones(1))[0] == 7
    assert twin.free is model.layers[0].free


@pytest.mark.parametrize("jit_compile", [True, False])
def test_a_model_is_cloned_after_all_its_functions_were_compiled(jit_compile, backend):
    if backend == "torch" and jit_compile:
        pytest.skip("Keras compiles nothing else on PyTorch, and its compiler needs a toolchain")
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3), layers.Dense(2)], name="model")
    model.compile(optimizer="adam", loss="mse", metrics=["mae"], jit_compile=jit_compile)

    def use(each):
        loss = each.fit(DATA, TARGETS, verbose=0, shuffle=False).history["loss"]
        each.train_on_batch(DATA, TARGETS)
        return loss, each.evaluate(DATA, TARGETS, verbose=0), each.predict(DATA, verbose=0).tolist()

    use(model)
    twin = ramet.clone(model)
    assert ramet.verify(model, twin).ok
    assert use(model) == use(twin)


@pytest.mark.parametrize("mode", ["full", "activations"])
def test_rematerialized_layers_are_cloned(mode):
    with keras.RematScope(mode=mode):
        inner = [layers.Dense(3, activation="relu"), layers.Dense(2)]
        model = keras.Sequential([keras.Input((4,)), *inner])
    model.compile(optimizer="adam", loss="mse", run_eagerly=True)
    model.fit(DATA, TARGETS, verbose=0)
    twin = ramet.clone(model)
    first, second = (
        each.fit(DATA, TARGETS, verbose=0, shuffle=False).history for each in (model, twin)
    )
    assert first == second
