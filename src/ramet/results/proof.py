"""What `prove` returns."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from math import inf
from typing import Any, Literal, get_args

from ramet._arguments import check_mapping, check_text
from ramet._words import PROMISES, Promise
from ramet.errors import DifferenceError, OptionError
from ramet.graph.names import brief, counted
from ramet.results.base import Table, Verdict
from ramet.results.divergence import Divergence

Judgement = Literal["kept", "broken", "changed", "not measured"]
"""What became of a promise; an edit that promises a change is `changed`, or `not measured`, unless
it claims something besides."""

_JUDGEMENTS: tuple[str, ...] = get_args(Judgement)

_FORMAT = 1
"""The version of the plain data of a proof."""


@dataclass(frozen=True, slots=True, repr=False)
class Proven:
    """What was measured of one edit, of several that only make sense together, or of all.

    Examples:
        >>> proof = ramet.prove(ramet.trace(model).freeze())
        >>> proof.whole.judgement, proof.whole.absolute
        ('kept', 0.0)
    """

    edits: tuple[int, ...]
    """Their numbers in the journal, from 1; all of them for the whole."""
    text: str
    """What was done, in words."""
    promised: Promise
    """What was promised."""
    judgement: Judgement
    """What became of it."""
    absolute: float | None = None
    """The largest absolute difference of an output in inference; infinite if values are not
    numbers in one model only; `None` if nothing was measured."""
    relative: float | None = None
    """The same relative to the largest value of that output."""
    allowed: float | None = None
    """The largest relative difference that keeps the promise; 0 stands for the same bits."""
    detail: str = ""
    """What differs, in words; or why nothing was measured, or what was left out."""
    divergence: Divergence | None = None
    """The first call that returns something else, for a promise that is broken."""
    claim: str = ""
    """What the edit promises besides, in words: without channels that are removed exactly, a
    model is equal to the model before with these channels masked. If there are such channels,
    this is what was judged and measured."""

    @property
    def ok(self) -> bool:
        """Whether it was measured and not broken; without a promise there is nothing to break."""
        if self.promised == "changed" and not self.claim:
            return True
        return self.judgement in {"kept", "changed"}

    @property
    def measured(self) -> str:
        """The largest differences, in words."""
        if self.absolute is None or self.relative is None or self.absolute == inf:
            return "-"  # The detail says why.
        if not self.absolute:
            return "0"
        return f"{self.absolute:.1e} ({self.relative:.1e})"

    def __repr__(self) -> str:
        """Return one line."""
        return brief("Proven", f"{self.text}: {self.promised}, {self.judgement}")


@dataclass(frozen=True, slots=True, repr=False)
class Proof(Verdict):
    """What the edits of a graph promised, and what was measured. True in a condition like `ok`.

    Examples:
        >>> proof = ramet.prove(ramet.trace(model).freeze())
        >>> text = proof.to_json()
        >>> ramet.results.Proof.from_json(text).matches(model)
        True
    """

    name: str
    """Name of the model."""
    edits: tuple[Proven, ...]
    """One entry per edit, or per group of edits that can only be built together."""
    whole: Proven
    """The source and the model that the graph builds."""
    data: str
    """What both were called on, in words."""
    fingerprint: str
    """A hash of the source's layers, connections and weights; empty if it had several sources."""
    versions: Mapping[str, str]
    """The versions of ramet, Keras and the backend that measured it."""

    @property
    def ok(self) -> bool:
        """Whether every promise is kept, and everything that was promised could be measured."""
        return all(each.ok for each in self.edits) and self.whole.judgement != "broken"

    @property
    def broken(self) -> tuple[Proven, ...]:
        """The entries whose promises are broken, the whole last."""
        return tuple(each for each in (*self.edits, self.whole) if each.judgement == "broken")

    def raise_if_broken(self) -> None:
        """Raise an error that names the first promise that is broken, or could not be measured.

        Raises:
            DifferenceError: If there is one.
        """
        if self.ok:
            return
        worst = next(iter(self.broken), None)
        if worst is None:
            open_ = next(each for each in self.edits if not each.ok)
            message = (
                f"it could not be measured whether {_label(open_)} of '{self.name}' is "
                f"{open_.promised}: {open_.detail}; print the proof to see more"
            )
            raise DifferenceError(message)
        where = "" if worst.divergence is None else f", first at {worst.divergence}"
        promised = worst.claim if worst.promised == "changed" else worst.promised
        message = (
            f"{_label(worst)} of '{self.name}' promised {promised}, but {worst.detail}"
            f"{where}; print the proof to see more"
        )
        raise DifferenceError(message)

    def matches(self, model: Any) -> bool:
        """Whether the proof is about a model: the source has the same layers and weights.

        Args:
            model: A Keras model with a graph.

        Raises:
            ModelError: If it is something else.
        """
        # Measured by what needs Keras, which reading a proof does not.
        fingerprint = import_module("ramet.comparing.fingerprint").fingerprint
        return bool(self.fingerprint) and fingerprint(model) == self.fingerprint

    @property
    def title(self) -> str:
        """The verdict in one line."""
        count = counted(len(self.edits), "edit")
        if self.broken:
            one = "promise is" if len(self.broken) == 1 else "promises are"
            return f"proof of '{self.name}': {len(self.broken)} {one} broken"
        if not self.ok:
            number = sum(not each.ok for each in self.edits)
            return f"proof of '{self.name}': {number} of {count} could not be measured"
        kept = sum(each.judgement == "kept" for each in self.edits)
        changed = len(self.edits) - kept
        also = f"; {counted(changed, 'edit')} may change anything" if changed else ""
        return f"proof of '{self.name}': {counted(kept, 'promise')} kept{also}"

    def table(self) -> Table:
        """Return one row per edit, and one for the whole."""
        columns = ("edit", "promised", "measured", "verdict")
        rows = [
            (_cell(each, last), each.promised, each.measured, each.judgement)
            for each, last in [*((each, False) for each in self.edits), (self.whole, True)]
        ]
        notes = [f"measured: largest difference (relative) of any output, {self.data}"]
        return Table(self.title, columns, rows, notes)

    def to_dict(self) -> dict[str, Any]:
        """Return the proof as plain data, for JSON."""
        return {
            "format": _FORMAT,
            "name": self.name,
            "ok": self.ok,
            "edits": [_plain(each) for each in self.edits],
            "whole": _plain(self.whole),
            "data": self.data,
            "fingerprint": self.fingerprint,
            "versions": dict(self.versions),
        }

    def to_json(self) -> str:
        """Return the proof as JSON, to be kept with the model."""
        return json.dumps(self.to_dict(), indent=1)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Proof":
        """Return a proof from its plain data.

        Raises:
            OptionError: If the data is not that of a proof.
        """
        check_mapping(data, "data", "the parts of a proof")
        if data.get("format") != _FORMAT:
            message = f"this is not a proof of format {_FORMAT}, as Proof.to_dict returns it"
            raise OptionError(message)
        try:
            return cls(
                name=_text(data["name"]),
                edits=tuple(map(_restored, data["edits"])),
                whole=_restored(data["whole"]),
                data=_text(data["data"]),
                fingerprint=_text(data["fingerprint"]),
                versions={_text(k): _text(v) for k, v in dict(data["versions"]).items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise OptionError(
                f"this is not a proof, as Proof.to_dict returns it: {error}"
            ) from error

    @classmethod
    def from_json(cls, text: str) -> "Proof":
        """Return a proof from JSON.

        Raises:
            OptionError: If the text is not that of a proof.
        """
        check_text(text, "text")
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise OptionError(f"text is not JSON: {error}") from error
        return cls.from_dict(data)


def _label(each: Proven) -> str:
    """Return an entry as errors name it."""
    if len(each.edits) == 1:
        return f"edit {each.edits[0]}, {each.text},"
    return each.text


def _cell(each: Proven, whole: bool) -> str:  # noqa: FBT001 called by position, once
    return "\n".join(_lines(each, whole=whole))


def _lines(each: Proven, *, whole: bool) -> Iterator[str]:
    numbers = "" if whole else f"{' + '.join(map(str, each.edits))}. "
    yield f"{numbers}{each.text}"
    if each.claim and not whole:  # The whole repeats the one edit there is.
        yield each.claim
    if each.detail and _tells_more(each, whole=whole):
        yield each.detail
    if each.divergence is not None:
        yield f"first at {each.divergence}"


def _tells_more(each: Proven, *, whole: bool) -> bool:
    if each.claim and each.judgement in {"kept", "changed"}:
        return not whole
    return each.judgement != "changed" or each.absolute == inf


def _plain(each: Proven) -> dict[str, Any]:
    numbers = {key: getattr(each, key) for key in ("absolute", "relative", "allowed")}
    shown = {
        key: "inf" if value == inf else value for key, value in numbers.items()
    }  # JSON has none
    return {**asdict(each), "edits": [*each.edits], **shown, "ok": each.ok}


def _restored(data: Mapping[str, Any]) -> Proven:
    known = {field.name: data[field.name] for field in fields(Proven) if field.name != "claim"}
    known["claim"] = data.get("claim", "")  # Older proofs have none.
    if known["promised"] not in PROMISES or known["judgement"] not in _JUDGEMENTS:
        raise ValueError(f"unknown word '{known['promised']}' or '{known['judgement']}'")
    for key in ("absolute", "relative", "allowed"):
        known[key] = None if known[key] is None else float(known[key])
    known["edits"] = tuple(int(number) for number in known["edits"])
    for key in ("text", "detail", "claim"):
        known[key] = _text(known[key])
    found = known["divergence"]
    if found is not None:
        known["divergence"] = Divergence(
            **{field.name: found[field.name] for field in fields(Divergence)}
        )
    return Proven(**known)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {type(value).__name__}")
    return value
