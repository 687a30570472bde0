"""Remedies for the command line: the options for the arguments that an error advises."""

import re

_OPTIONS = (
    (r"pass (force|trust)=True", r"use --\1"),
    (r"load it with trust=True", r"use --trust --import"),
    (
        r"pass to='model\.html', or print\(ramet\.profile\(model\)\)",
        r"use --to model.html, or ramet profile",
    ),
    (r"or use Profile\.against", r"or use ramet profile with two files"),
    (r"pass it in custom_objects", r"use --trust --import"),
    (r"pass method='(\w+)'", r"use --method \1"),
    (r"pass data, a batch that the model can be called on", r"pass a batch with --data"),
    (r"pass the layers to (?:be added|add), such as new=\[.*\]", r"use --by 'layers.Dense(8)'"),
    (r"ramet\.compress\.groups lists", r"a --dry-run lists"),
    (r"choose other layers with at=", r"choose other layers with --at"),
    (r"use names=\"exact\"", r"use --exact-names"),
    (r"pass shapes=\{'([^']*)': \.\.\.\}", r"use --shape \1=..."),
    (r"set KERAS_BACKEND=(\w+) before Keras is imported", r"use --backend \1"),
)
"""What errors say in Python, and on the command line."""


def with_options(message: str) -> str:
    """Return an error message whose remedy names options instead of arguments.

    The remedy follows the last semicolon. The rest stays, as it may quote what a file says.
    """
    problem, separator, remedy = message.rpartition("; ")
    for pattern, option in _OPTIONS:
        remedy = re.sub(pattern, option, remedy)
    return f"{problem}{separator}{remedy}"
