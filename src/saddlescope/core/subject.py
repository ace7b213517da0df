"""Subject: what the lab needs of anything that it can run, store, judge and draw: a System or a Study."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from .errors import BadArgument, unknown
from .observable import Coordinate, Observable, Once, OverTime, check_observables
from .spec import Parameters

Face = Literal["train", "flow", "predict"]

PARTS: Mapping[Face, str] = {"train": "training", "flow": "flow", "predict": "theory"}
"""The part of a subject that each face is of."""


class Subject(ABC):
    """Anything that can be run, judged and drawn. spec: its parameters; None: those of its preset `quick`.

    Class attributes: name ("room" or "room/variant"), paper (citation key), summary (one line), spec_type, presets
    (overrides of the Spec's defaults, `quick` among them), observables (name -> `Observable`; or an `OverTime`, or a
    `Once`), time (what it counts), kept (whether its runs may be stored: its name, version and sources say all that
    decides them); and the parts that it has, of which the faces follow: training, flow, theory.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    summary: ClassVar[str]
    spec_type: ClassVar[type[Parameters]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]]
    observables: ClassVar[Mapping[str, Observable]]
    time: ClassVar[Observable] = Observable("time")
    kept: ClassVar[bool] = True
    training: Any = None
    flow: Any = None
    theory: Any = None
    faces: ClassVar[tuple[Face, ...]] = ()
    spec: Any

    def __init_subclass__(cls, **settings: Any):
        super().__init_subclass__(**settings)
        if isinstance(stated := cls.__dict__.get("observables"), Mapping):
            check_observables(cls.__name__, stated)
        if not isinstance(cls.time, Observable):
            raise TypeError(f"`time` of {cls.__name__} must be an Observable('what it counts'), got {cls.time!r}")
        if not callable(cls.coordinates):
            raise TypeError(f"`coordinates` of {cls.__name__} must be a method, got {cls.coordinates!r}")
        cls.faces = tuple(face for face, name in PARTS.items() if getattr(cls, name) is not None)

    def __init__(self, spec: Parameters | None = None):
        self.spec = self.preset("quick") if spec is None else spec
        if not isinstance(self.spec, self.spec_type):
            raise BadArgument(f"{self.name} takes a {self.spec_type.__name__}, got a {type(spec).__name__}")

    @property
    def parts(self) -> tuple[Any, ...]:
        """Those that it has."""
        return tuple(part for name in PARTS.values() if (part := getattr(self, name)) is not None)

    @classmethod
    def preset(cls, name: str) -> Any:
        if name not in cls.presets:
            raise unknown("preset", name, cls.presets)
        return cls.spec_type.from_dict(cls.presets[name])

    @property
    def identity(self) -> tuple:
        """What makes two subjects the same problem; compiled code is shared between equal systems."""
        return (type(self), self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subject) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.spec,)  # parts, and what was computed on the way, are made again

    def __repr__(self) -> str:
        return f"<{self.name} {self.spec.digest}>"

    def needs_face(self, face: Face) -> None:
        if face not in self.faces:
            raise BadArgument(f"{self.name} has no face {face!r}: it can {', '.join(self.faces) or 'do nothing'}")

    def changed(self, **overrides: Any) -> Any:
        """The same problem with other settings."""
        return type(self)(self.spec.replace(**overrides))

    def measured(self) -> dict[str, tuple[str, ...]]:
        """The observables that `measure` returns, with their dimensions."""
        return {name: one.dims for name, one in self.observables.items() if not isinstance(one, (Once, OverTime))}

    def coordinates(self) -> Mapping[str, Coordinate]:
        """What numbers or names the places along its dimensions; those that are left out are counted from 1."""
        return {}
