"""What a layer does, in a word, by the name of its class; every word has a colour of its own.

The colours are those of Okabe and Ito, which people who are colour-blind can tell apart, and two
greys. They are the same in every picture.
"""

import re

COLOURS = {
    "input": "#6b7280",
    "convolution": "#0072b2",
    "dense": "#e69f00",
    "attention": "#d55e00",
    "recurrent": "#cc79a7",
    "embedding": "#8a6d00",
    "normalization": "#009e73",
    "activation": "#56b4e9",
    "pooling": "#7a5ba6",
    "merging": "#b3a500",
    "regularization": "#a0522d",
    "model": "#374151",
    "other": "#9ca3af",
}
"""The colour of each word."""

_WORDS = (
    ("input", r"^(InputLayer|tensor)$"),
    ("model", r"^(Functional|Sequential|Model)$"),
    ("recurrent", r"LSTM|GRU|RNN|Bidirectional|Cell$"),
    ("attention", r"Attention"),
    ("convolution", r"Conv"),
    ("embedding", r"Embedding"),
    ("normalization", r"Normalization|Norm$"),
    ("dense", r"Dense|^(Einsum|Matmul|Dot|Tensordot)$"),
    ("pooling", r"Pool"),
    ("regularization", r"Dropout|Noise|ActivityRegularization"),
    ("merging", r"^(Add|Subtract|Multiply|Average|Maximum|Minimum|Concatenate|Stack|Divide)$"),
    ("activation", r"^(Re[Ll]u|Softmax|Activation|\w*R[Ee][Ll][Uu]\d?|ELU|Sigmoid|Tanh|G[Ee]lu)$"),
    ("activation", r"^(Silu|Swish|Hard\w+|Soft\w+|Log[Ss]oftmax|Selu|Elu|Mish|Celu)$"),
)
_PATTERNS = tuple((word, re.compile(pattern)) for word, pattern in _WORDS)


def word_of(kind: str, *, is_model: bool = False) -> str:
    """Return what a class of layers does.

    Args:
        kind: Name of the class.
        is_model: Whether it is a nested model, of whatever class.
    """
    if is_model:
        return "model"
    return next((word for word, pattern in _PATTERNS if pattern.search(kind)), "other")
