"""What attacks and proofs say about a text, and how a notebook shows it."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any, Dict, Generic, List, NamedTuple, Optional, TypeVar

import numpy as np


class Swap(NamedTuple):
    """A word of the text and what was, or may be, put in its place."""

    position: int  # which word of the text, from 0
    start: int  # its characters in the text
    end: int
    word: str
    substitute: str
    drop: float = 0.0  # what it takes from the margin, where that is known


class _Record:
    """One text's line, read when it is first looked at."""

    __slots__ = ("_line", "_data")
    text: str

    def __init__(self, line: bytes) -> None:
        self._line = line
        self._data: Optional[Dict[str, Any]] = None

    @property
    def data(self) -> Dict[str, Any]:
        """All that is known, with the keys of the C library's JSON."""
        if self._data is None:
            self._data = json.loads(self._line)
        return self._data

    def _swaps(self, key: str) -> List[Swap]:
        raw = self.text.encode("utf-8")

        def chars(at: int) -> int:
            return at if len(raw) == len(self.text) else len(raw[:at].decode("utf-8", "ignore"))

        return [Swap(s["position"], chars(s["start"]), chars(s["end"]), s.get("word", s.get("from")),
                     s.get("substitute", s.get("to")), s.get("drop", 0.0))
                for s in self.data.get(key, [])]

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def _marked(self, swaps: List[Swap]) -> str:
        """The text as HTML, with the swaps in it."""
        out, at = [], 0
        for s in sorted(swaps):
            out += [html.escape(self.text[at:s.start]), f"<del>{html.escape(self.text[s.start:s.end])}</del>",
                    f"<ins>{html.escape(s.substitute)}</ins>"]
            at = s.end
        return "".join(out) + html.escape(self.text[at:])


def _card(head: str, body: str, colour: str) -> str:
    style = (f"border-left:4px solid {colour};padding:.2em .8em;margin:.4em 0;line-height:1.5")
    return f'<div style="{style}"><b>{html.escape(head)}</b><br>{body}</div>'


class Attacked(_Record):
    """What became of an attacked text."""

    __slots__ = ("text",)

    def __init__(self, line: bytes, text: str) -> None:
        super().__init__(line)
        self.text = text  #: as it was given

    @property
    def index(self) -> int:
        """Which text of the run."""
        return self.data["index"]

    @property
    def outcome(self) -> str:
        """"success", "failure", "wrong" (before any change), "unconfirmed", "timeout" or "error"."""
        return self.data["outcome"]

    @property
    def flipped(self) -> bool:
        """A text was found to which the victim answers otherwise."""
        return self.outcome == "success"

    @property
    def label(self) -> str:
        """The class to be left."""
        return self.data["label"]

    @property
    def answer(self) -> Optional[str]:
        """The victim's answer to the text that was found, or to the text itself."""
        return self.data.get("answer")

    @property
    def adversarial(self) -> Optional[str]:
        """The flipped text; None: none was found."""
        return self.data.get("adversarial") if self.flipped else None

    @property
    def swaps(self) -> List[Swap]:
        """The swaps that make the flipped text."""
        return self._swaps("changes") if self.flipped else []

    @property
    def before(self) -> float:
        """The label's probability in the text as it was."""
        return self.data.get("before", float("nan"))

    @property
    def after(self) -> float:
        """The label's probability in the text that was found."""
        return self.data.get("after", float("nan"))

    @property
    def queries(self) -> int:
        """Questions to the victim."""
        return self.data.get("queries", 0)

    def __repr__(self) -> str:
        to = f" -> {self.answer}: {self.adversarial!r}" if self.flipped else f": {self.text!r}"
        return f"<stet.Attacked {self.outcome}, {self.label}{to}>"

    def _repr_html_(self) -> str:
        head = f"{self.label}, not flipped" if self.outcome == "failure" else f"{self.label}, {self.outcome}"
        if self.flipped:
            head = f"{self.label} {self.before:.1%} → {self.answer}, {len(self.swaps)} swaps"
        return _card(head, self._marked(self.swaps), "#c33" if self.flipped else "#999")


class Certified(_Record):
    """What is proved of a text."""

    __slots__ = ("text", "_classes", "_label")

    def __init__(self, line: bytes, text: str, classes: List[str], label: Optional[int] = None) -> None:
        super().__init__(line)
        self.text = text  #: as it was given
        self._classes, self._label = classes, label

    @property
    def label(self) -> str:
        """The class that ought to stand."""
        return self._classes[self.data["class"] if self._label is None else self._label]

    @property
    def answer(self) -> Optional[str]:
        """The model's answer to the text as it stands; None: its numbers overflow."""
        n = self.data.get("answer", self.data["class"])
        return self._classes[n] if n >= 0 else None

    @property
    def probability(self) -> float:
        """Of the answer; nan where there is none."""
        p = self.data["probability"]
        return float("nan") if p is None else p

    @property
    def verdict(self) -> str:
        """"certified", "broken", "undecided", "wrong" or "likely"."""
        return self.data["verdict"]

    @property
    def certified(self) -> bool:
        """Proved: no combination of substitutes changes the answer."""
        return self.data["certified"]

    @property
    def margin(self) -> float:
        """The least margin that is proved, or the share of votes to spare; -inf: neither."""
        m = self.data["margin"]
        return float("-inf") if m is None else m

    @property
    def budget(self) -> Optional[int]:
        """Substituted words that are proved harmless, or likely to be; None: any number."""
        return self.data["largest_budget"]

    @property
    def confidence(self) -> float:
        """Of a model that votes: the bounds behind the verdict hold with at least this probability, which is no proof; else 0."""
        return self.data.get("confidence", 0.0)

    @property
    def method(self) -> str:
        """Of the proof; "none"."""
        return self.data["method"]

    @property
    def reason(self) -> Optional[str]:
        """Why the text could not be bounded, if so."""
        return self.data.get("reason")

    @property
    def swaps(self) -> List[Swap]:
        """The counter-example: the swaps that flip the text."""
        return self._swaps("counter_example")

    @property
    def harm(self) -> List[Swap]:
        """The worst substitutes by the bound, worst first."""
        return self._swaps("harm")

    @property
    def seconds(self) -> float:
        """What it took."""
        return self.data["seconds"]

    def __repr__(self) -> str:
        return f"<stet.Certified {self.verdict}, {self.label}: {self.text!r}>"

    def _repr_html_(self) -> str:
        colour = {"certified": "#2a7", "broken": "#c33", "wrong": "#c33"}.get(self.verdict, "#999")
        head = f"{self.label}: {self.verdict}"
        if not self.certified and self.budget:
            how = "likely" if self.confidence else "proved"
            head += f", {self.budget} swaps {how} harmless"
        return _card(head, self._marked(self.swaps), colour)


class Explained(_Record):
    """Which words carry the answer."""

    __slots__ = ("text", "_classes")

    def __init__(self, line: bytes, text: str, classes: List[str]) -> None:
        super().__init__(line)
        self.text = text  #: as it was given
        self._classes = classes

    @property
    def label(self) -> str:
        """The class that is explained."""
        return self._classes[self.data["explained"]]

    @property
    def words(self) -> List[Dict[str, Any]]:
        """For each word its `weight`, and `substitute` and `drop` of its worst substitute."""
        return self.data["words"]

    def __repr__(self) -> str:
        top = sorted(self.words, key=lambda w: -abs(w["weight"]))[:3]
        return f"<stet.Explained {self.label}: " + ", ".join(f"{w['word']} {w['weight']:+.2f}" for w in top) + ">"

    def _repr_html_(self) -> str:
        most = max([abs(w["weight"]) for w in self.words] or [1]) or 1
        raw, out, at = self.text.encode("utf-8"), [], 0
        for w in self.words:
            rgb = "34,170,119" if w["weight"] > 0 else "204,51,51"
            word = html.escape(raw[w["start"]:w["end"]].decode())
            out += [html.escape(raw[at:w["start"]].decode()),
                    f'<span style="background:rgba({rgb},{abs(w["weight"]) / most:.2f})" '
                    f'title="{w["weight"]:+.3f}">{word}</span>']
            at = w["end"]
        return _card(self.label, "".join(out) + html.escape(raw[at:].decode()), "#999")


# ---- all texts --------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttackSummary:
    """Numbers of an attack; shares are from 0 to 1."""

    n: int
    correct: int  # before the attack
    succeeded: int
    errors: int
    unconfirmed: int
    proved: int  # left alone because a proof says that nothing flips them
    timeouts: int
    resumed: int
    clean: float  # accuracy before
    aua: float  # accuracy under attack
    success_rate: float
    queries_mean: float
    changed_mean: float
    seconds: float
    redraws: int  # of a model that draws: times that it was asked again with other draws; 0: it draws nothing
    aua_redrawn: float  # accuracy then, on the texts as the attack left them
    flips_stay: float  # share of the flips that were flips then; NaN: there were none
    untouched_wrong: float  # share of wrong answers then about the same texts before the attack


@dataclass(frozen=True)
class CertifySummary:
    """Numbers of a run of proofs; shares are of all texts, from 0 to 1."""

    n: int
    correct: int
    clean: float  # accuracy
    certified: float
    broken: float
    undecided: float
    likely: float
    confidence: float  # of a model that votes, that of its verdicts; else 0
    unbounded: int
    resumed: int
    seconds: float


def summary_of(kind: Any, struct: Any) -> Any:
    return kind(**{f: getattr(struct, f) for f in kind.__dataclass_fields__})


R = TypeVar("R", bound=_Record)


class Results(List[R], Generic[R]):
    """One record a text, in the order of the texts, and `summary`, the numbers of all."""

    summary: Any

    def __init__(self, records: List[R], summary: Any) -> None:
        super().__init__(records)
        self.summary = summary

    def column(self, name: str) -> np.ndarray:
        """One property of all records: results.column("margin")."""
        return np.array([getattr(r, name) for r in self])

    def _repr_html_(self) -> str:
        s = self.summary
        robust = f"under attack {s.aua:.1%}" if isinstance(s, AttackSummary) else f"certified {s.certified:.1%}"
        more = f"<p>… and {len(self) - 20} more</p>" if len(self) > 20 else ""
        return (f"<p>{s.n} texts: accuracy {s.clean:.1%}, {robust}</p>"
                + "".join(r._repr_html_() for r in self[:20]) + more)
