"""Subject: what the lab needs of anything that it can run, store, judge and draw: a System or a Study."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from .errors import BadArgument, unknown
from .spec import Parameters

Face = Literal["train", "flow", "predict"]


class Subject(ABC):
    """Class attributes: name ("room" or "room/variant"), paper (citation key), summary (one line), spec_type, faces,
    presets (overrides of the Spec's defaults, `quick` among them), observables (name -> dimension names of what a
    trajectory holds beside time), timed (observables that `over_time` makes of others and of time), constants (arrays
    that a run has once, not over time), kept (whether its runs may be stored: its name, version and sources say all
    that decides them), columns (entries of Stage.extra that tables show, and under which heading), claims.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    spec_type: ClassVar[type[Parameters]]
    faces: ClassVar[tuple[Face, ...]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    observables: ClassVar[Mapping[str, tuple[str, ...]]]
    timed: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    constants: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    kept: ClassVar[bool] = True
    columns: ClassVar[Mapping[str, str]] = {}
    claims: ClassVar[Sequence[Any]] = ()
    spec: Any

    def __init__(self, spec: Parameters | None = None):
        self.spec = self.preset("quick") if spec is None else spec
        if not isinstance(self.spec, self.spec_type):
            raise BadArgument(f"{self.name} takes a {self.spec_type.__name__}, got a {type(spec).__name__}")

    @classmethod
    def preset(cls, name: str) -> Any:
        if name not in cls.presets:
            raise unknown("preset", name, cls.presets)
        return cls.spec_type(**cls.presets[name])

    @property
    def identity(self) -> tuple:
        """What makes two subjects the same problem; compiled code is shared between equal systems."""
        return (type(self), self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subject) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"<{self.name} {self.spec.digest}>"

    def needs_face(self, face: Face) -> None:
        if face not in self.faces:
            raise BadArgument(f"{self.name} has no face {face!r}: it can {', '.join(self.faces)}")

    def lacks(self) -> str:
        """Why this machine cannot make the run (data or a library is missing), with the way out; "" where it can."""
        return ""

    @property
    def alone(self) -> bool:
        """Whether a run needs the whole machine, e.g. its GPU, so that no other is made beside it."""
        return False

    def over_time(self, time: Any, observables: Mapping[str, Any]) -> Mapping[str, Any]:
        """The observables of `timed`, from series of the others."""
        return {}

    def words(self, name: str, value: Any) -> str:
        """An entry of Stage.extra as a table shows it."""
        return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
