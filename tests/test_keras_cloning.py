"""Keras's own tests of `clone_model`, run against ours."""

import pytest

import ramet

cloning_test = pytest.importorskip(
    "keras.src.models.cloning_test", reason="Keras ships its tests since 3.15"
)
cloning_test.clone_model = ramet.clone_model

CloneModelTest = cloning_test.CloneModelTest
