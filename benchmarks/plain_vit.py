"""A small vision transformer, written in plain `torch.nn`, and the same one in Keras."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

IMAGE, PATCH, WIDTH, BLOCKS, HEADS, CLASSES = 224, 16, 192, 12, 3, 1000


class Attention(nn.Module):
    """Attention of several heads, with one matrix for queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.heads, self.head_width = HEADS, WIDTH // HEADS
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Let all steps attend to all."""
        batch, steps, _ = x.shape
        shape = batch, steps, 3, self.heads, self.head_width
        query, key, value = self.qkv(x).reshape(shape).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(query, key, value)
        return self.out(y.transpose(1, 2).reshape(batch, steps, -1))


class Block(nn.Module):
    """Attention and two layers, each with a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Add to x what the layers make of it."""
        x = x + self.attention(self.first(x))
        return x + self.down(functional.gelu(self.up(self.second(x))))


class VisionTransformer(nn.Module):
    """Classifies images; the mean of all patches decides."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.positions = nn.Parameter(torch.randn(1, (IMAGE // PATCH) ** 2, WIDTH) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of a batch of images."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(x)).mean(1))


def keras_twin() -> Any:
    """Make the same model in Keras."""
    import keras
    from keras import layers

    image, count = keras.Input((IMAGE, IMAGE, 3)), (IMAGE // PATCH) ** 2
    x = layers.Conv2D(WIDTH, PATCH, PATCH, name="patches")(image)
    x = layers.Reshape((count, WIDTH))(x)
    x = x + layers.Embedding(count, WIDTH, name="positions")(keras.ops.arange(count))
    for block in range(BLOCKS):
        y = layers.LayerNormalization()(x)
        y = layers.MultiHeadAttention(HEADS, WIDTH // HEADS, name=f"attention_{block}")(y, y)
        x = layers.Add()([x, y])
        y = layers.LayerNormalization()(x)
        y = layers.Dense(4 * WIDTH, activation="gelu", name=f"up_{block}")(y)
        x = layers.Add()([x, layers.Dense(WIDTH, name=f"down_{block}")(y)])
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(image, layers.Dense(CLASSES, name="head")(x), name="vit")
