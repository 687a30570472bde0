"""Whatever is passed to whatever is public: it is fine, or a RametError that says what to do."""

import contextlib
import io
import signal
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

import ramet
from wrongcalls import INSIDE, OPTIONS, WRONG, Hands, Right, Target, arguments, targets

pytestmark = pytest.mark.sampled

LONGEST = 1500
"""Characters of a message: it never prints a whole value."""

TARGETS = [*targets()]


@pytest.fixture(scope="module")
def hands(tmp_path_factory: pytest.TempPathFactory) -> Hands:
    return Hands(tmp_path_factory.mktemp("hands"))


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def state(hands: Hands) -> tuple[Any, ...]:
    """Return what must be the same after each call."""
    model = hands.model
    return (
        str(hands.graph),
        hash(hands.graph),
        hands.selection.paths,
        str(model.get_config()),
        [layer.name for layer in model.layers],
        [len(layer._inbound_nodes) for layer in model.layers],
        [layer.trainable for layer in model.layers],
        [variable.path for variable in model.variables],
        [keras.ops.convert_to_numpy(variable).tobytes() for variable in model.variables],
    )


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Fail if something takes more time of the processor."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def problem(target: Target, hands: Hands, right: Right, parameter: str, value: Any) -> str | None:
    """Call with one wrong argument, and return what is wrong with what happens, if anything."""
    args, kwargs = arguments(right, parameter, value)
    printed = io.StringIO()
    try:
        with limited(20), contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.call(hands)(*args, **kwargs)
    except ramet.RametError as error:
        text = str(error)
        return f"message of {len(text)} characters" if not 0 < len(text) < LONGEST else None
    except BaseException as error:  # noqa: BLE001 it is reported
        return f"{type(error).__name__}: {str(error)[:90]}"
    return None


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.label)
def test_right_arguments_are_accepted(target: Target, hands: Hands) -> None:
    args, kwargs = arguments(target.right(hands))
    target.call(hands)(*args, **kwargs)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.label)
def test_wrong_arguments(target: Target, hands: Hands) -> None:
    before, problems = state(hands), []
    for number, (right, parameter, wrap) in enumerate(trials(target, hands)):
        for name, wrong in WRONG.items():
            found = problem(target, hands, right, parameter, wrap(wrong(hands)))
            if found is not None:
                problems.append(f"{target.label}({parameter}={name}, trial {number}): {found}")
    assert not problems, "\n".join(problems)
    assert state(hands) == before


def trials(target: Target, hands: Hands) -> Iterator[tuple[Right, str, Callable[[Any], Any]]]:
    """Yield right arguments, the one to replace, and what to put the wrong value into."""
    for parameter in target.right(hands):
        yield target.right(hands), parameter, lambda value: value
    for parameter, wrap in INSIDE.get(target.label, ()):
        right = {**target.right(hands)}
        if target.label == "Graph.with_inputs" and parameter == "inputs":
            right["**"] = {}
        yield right, parameter, wrap
    for name in OPTIONS.get(target.label, ()):
        yield {**target.right(hands), "**": {name: None}}, "**", lambda value: value
