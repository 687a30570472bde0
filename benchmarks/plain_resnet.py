"""The ResNet50 of `keras.applications`, written in plain `torch.nn`."""

from torch import Tensor, nn


class Bottleneck(nn.Module):
    """Three convolutions with a shortcut around them."""

    def __init__(self, entry: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution(entry, width, 1, stride=stride),
            nn.ReLU(inplace=True),
            *_convolution(width, width, 3, padding=1),
            nn.ReLU(inplace=True),
            *_convolution(width, 4 * width, 1),
        )
        changed = stride > 1 or entry != 4 * width
        self.shortcut = nn.Sequential(
            *(_convolution(entry, 4 * width, 1, stride=stride) if changed else ())
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the body, plus x."""
        return self.relu(self.body(x) + self.shortcut(x))


class ResNet50(nn.Sequential):
    """Classifies images into 1,000 classes; 25.6 million parameters."""

    def __init__(self) -> None:
        blocks: list[nn.Module] = []
        entry = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for place in range(count):
                blocks.append(Bottleneck(entry, width, 1 if place else stride))
                entry = 4 * width
        super().__init__(
            *_convolution(3, 64, 7, stride=2, padding=3),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(entry, 1000),
            nn.Softmax(dim=1),
        )


def _convolution(
    entry: int, width: int, size: int, *, stride: int = 1, padding: int = 0
) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(entry, width, size, stride, padding), nn.BatchNorm2d(width, eps=1.001e-5)
