"""What training changed, tensor by tensor and head by head: from two models on disk or in memory, or an adapter."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from saddlescope.core.errors import BadArgument
from saddlescope.core.progress import Tick, silent
from saddlescope.core.threads import one_thread, threads_for
from saddlescope.spectra.arrays import on_grid
from saddlescope.spectra.heads import HeadChange, few_heads, head_changes
from saddlescope.spectra.layouts import AttentionLayer, HeadLayout, find_layout
from saddlescope.spectra.matrix import MatrixChange
from saddlescope.spectra.product import ProductChange

from .adapter import Adapter, AdapterModule, listed
from .diff_notes import notes_on_ends, notes_on_rounding, notes_on_vectors
from .difference import Difference, Heads, Module
from .ends import opened
from .match import by_number, matched_names
from .memory import InMemory
from .peft_names import names_in_memory, peft_names
from .tensor import Tensor, WeightSource

NAMES_SHOWN = 3

EMBEDDINGS = re.compile(
    r"(^|\.)(wte|wpe|shared|embed_tokens|embed_in|tok_embeddings|relative_attention_bias"
    r"|(word|position|token_type|token|patch)_embeddings?)\.weight$"
)
"""Weights of lookups, by the names that are in use: their shape does not tell them from linear layers."""

POSITIONS = re.compile(r"(^|\.)embed_positions\.weight$")
"""Lookups with an offset of their own (OPT, BART), which PEFT's wrapper for embeddings does not know."""

STACKED = re.compile(r"\.experts\.\d+\.")


def diff(
    base: Any,
    tuned: Any = None,
    *,
    mapping: Mapping[str, Any] | None = None,
    config: Mapping[str, Any] | None = None,
    exact: bool = False,
    exact_base: bool = False,
    heads: bool = True,
    tick: Tick = silent,
) -> Difference:
    """The change from one model to another, of a base by an adapter, or of an adapter alone.

        ss.diff("base", "tuned")                     # two folders, or files, or names in the Hugging Face cache
        ss.diff("base", model)                       # a folder, and the model that was trained from it
        before = copy.deepcopy(model)                # then train: training changes a model in place
        ss.diff(before, model).extract("adapter")

    base, tuned: each a path, a torch module, a state dict, or a tree of jax, NumPy or torch arrays, whose names are the
    paths to them joined with dots. `tuned` may be a folder with an adapter, or a model that PEFT has put one into; left
    out, `base` is such an adapter. Weights in memory are read where they are, a few rows at a time, now and again by
    `extract`: the result keeps hold of them.
    mapping: where attention weights are, for a model whose names are not known here; {"heads": n} where only their
    number is not.  config: what a config.json would hold, for weights in memory that come without.  exact: all singular
    values of matrices of any size.  exact_base: training started from the stored base, so only the tuned end was
    rounded.  heads: measure the heads of attention too.  tick: hears of the progress.
    """
    first, second = opened(base, tuned)
    for end in (first, second):
        if isinstance(end, InMemory) and config is not None and not end.config:
            end.config = dict(config)
    if first is None:
        assert isinstance(second, Adapter)
        return _diff_adapter(second, tick)
    if isinstance(second, Adapter):
        return _diff_base_and_adapter(first, second, mapping, heads, tick)
    assert second is not None
    return _diff_checkpoints(first, second, mapping, exact, exact_base, heads, tick)


Expert = Callable[[str, int], np.ndarray]


# ---- two checkpoints -------------------------------------------------------------------------------------


class _Matrix(NamedTuple):
    """A matrix at both ends: a tensor, or one of the stack that it holds."""

    name: str
    key: str
    partner: str
    shape: tuple[int, int]
    kind: str
    part: int | None = None
    remark: str = ""

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]


def _diff_checkpoints(
    base: WeightSource,
    tuned: WeightSource,
    mapping: Mapping[str, Any] | None,
    exact: bool,
    exact_base: bool,
    heads: bool,
    tick: Tick,
) -> Difference:
    names = _matched(base, tuned)
    if not names:
        raise BadArgument(
            f"{base.where} and {tuned.where} have no tensor in common: the first holds {listed(base.tensors)}, "
            f"the second {listed(tuned.tensors)}"
        )
    notes = [*base.notes, *tuned.notes, *notes_on_ends(base, tuned, names)]
    matrices = list(_matrices(base, tuned, names, notes))
    if not matrices:
        raise BadArgument(
            f"{base.where} and {tuned.where} are different models, no matrix has the same shape in both: "
            + "; ".join(notes[:NAMES_SHOWN])
        )
    layout, layers = _layout(base, names, tuned, mapping, notes) if heads else (None, [])
    costs = [matrix.size for matrix in matrices] + [_size_of(layer, base) for layer in layers]
    done, total = 0, sum(costs)
    modules, changes = [], {}
    experts = [_last_expert(checkpoint) for checkpoint in (base, tuned)]
    for matrix in matrices:
        tick(done / total, matrix.name)
        change = MatrixChange(
            _rows(base, matrix.key, matrix, experts[0]),
            _rows(tuned, matrix.partner, matrix, experts[1]),
            matrix.shape,
            exact_base=exact_base,
            exact=exact,
        )
        with threads_for(matrix.shape):
            modules.append(_module(matrix, change, base, tuned))
        changes[matrix.name] = change
        done += matrix.size
    found = []
    for layer in layers:
        tick(done / total, f"heads of layer {layer.layer}")
        with threads_for(base.tensors[layer.keys[0]].shape):
            found += _heads(layer, base.read, lambda key: tuned.read(names[key]), exact_base)
        done += _size_of(layer, base)
    notes += notes_on_rounding(modules, exact_base) + notes_on_vectors(base, tuned, names)
    family = layout.family if layout else (base.config or {}).get("model_type")
    return Difference(
        base.where,
        tuned.where,
        family,
        notes,
        modules,
        found,
        changes,
        base.config or tuned.config,
        origin=base.origin,
        paths=_paths(base),
    )


def _matched(base: WeightSource, tuned: WeightSource) -> dict[str, str]:
    """Names in `base` and what they are called in `tuned`, in an order that does not depend on how they are stored."""
    config = base.config or tuned.config or {}
    # What a file calls a tensor is not always what the module calls it.
    called = [
        {name: key for key, name in names_in_memory(end.tensors, config).items()}
        if not end.is_module and other.is_module
        else {name: name for name in end.tensors}
        for end, other in ((base, tuned), (tuned, base))
    ]
    names = {called[0][name]: called[1][partner] for name, partner in matched_names(*called).items()}
    return {name: names[name] for name in sorted(names, key=by_number)}


def _paths(base: WeightSource) -> dict[str, str] | None:
    """Paths of modules by the keys of their weights, if the base is the module itself."""
    return {key: key.removesuffix(".weight") for key in base.tensors} if base.is_module else None


def _matrices(base: WeightSource, tuned: WeightSource, names: Mapping[str, str], notes: list[str]) -> Iterator[_Matrix]:
    for key, partner in names.items():
        (shape, dtype), (other, other_dtype) = base.tensors[key], tuned.tensors[partner]
        if "float" not in dtype or "float" not in other_dtype or math.prod(shape) == 0:
            continue
        if shape != other:
            if len(shape) == 2 and len(other) == 2 and shape[1] == other[1] and min(shape[0], other[0]) > 1:
                both = min(shape[0], other[0])
                notes.append(f"{key} was resized from {shape[0]} to {other[0]} rows: the first {both} are compared")
                # An adapter has the base's rows: one whose rows became fewer cannot be written.
                kind = _kind(key) if shape[0] == both else "matrix that lost rows"
                yield _Matrix(key, key, partner, (both, shape[1]), kind, remark="resized")
            else:
                notes.append(f"{key} has the shape {shape} in {base.where} and {other} in {tuned.where}: left out")
            continue
        if len(shape) == 3 and "expert" in key and min(shape[1:]) > 1:
            for part in range(shape[0]):
                yield _Matrix(f"{key}[{part}]", key, partner, (shape[1], shape[2]), "expert", part)
        elif len(shape) == 2:
            yield _Matrix(key, key, partner, (shape[0], shape[1]), _kind(key))
        elif len(shape) > 2 and min(flat := (shape[0], math.prod(shape[1:]))) > 1:
            yield _Matrix(key, key, partner, flat, "kernel")


def _kind(key: str) -> str:
    """Whether this is the weight of a linear layer or of an embedding, or a matrix that belongs to no such module."""
    if not key.endswith(".weight"):
        return "parameter"
    if POSITIONS.search(key):
        return "table of positions"
    if STACKED.search(key):
        return "expert, which transformers stacks into one parameter"
    return "embedding" if EMBEDDINGS.search(key) else "linear"


def _last_expert(checkpoint: WeightSource) -> Expert:
    """One matrix of a stack is read whole: rows of a stack are its matrices. The last is kept while pieces are
    taken."""
    return functools.lru_cache(maxsize=1)(lambda key, part: checkpoint.rows(key, part, part + 1)[0])


def _rows(checkpoint: WeightSource, key: str, matrix: _Matrix, expert: Expert) -> Callable[[int, int], np.ndarray]:
    part = matrix.part
    if part is not None:
        return lambda start, stop: expert(key, part)[start:stop]
    # A convolution's kernel is a matrix from all that it looks at to its channels.
    return lambda start, stop: checkpoint.rows(key, start, min(stop, matrix.shape[0])).reshape(-1, matrix.shape[1])


def _module(matrix: _Matrix, change: MatrixChange, base: WeightSource, tuned: WeightSource) -> Module:
    first, second = base.tensors[matrix.key].dtype, tuned.tensors[matrix.partner].dtype
    try:
        summary = change.summary
        found = Module(
            name=matrix.name,
            shape=matrix.shape,
            dtype=first if first == second else f"{first} -> {second}",
            relative_change=summary.relative_change,
            spectrum=change.spectrum,
            rank_above_floor=change.rank_above_floor,
            floor=change.floor,
            hidden_at_least=change.hidden_at_least,
            unchanged=summary.unchanged,
            unchanged_inside=change.unchanged_inside,
            grids=(summary.grids[0].name, summary.grids[1].name),
            kind=matrix.kind,
            outliers=change.outliers_dominate,
            remark=matrix.remark,
        )
    except (ValueError, ArithmeticError) as error:  # of which LinAlgError is the first kind
        raise BadArgument(f"{matrix.name}: {error}: its difference would mean nothing") from error
    change.release()
    return found


# ---- heads -----------------------------------------------------------------------------------------------


def _layout(
    base: WeightSource,
    names: Mapping[str, str],
    tuned: WeightSource | None,
    mapping: Mapping[str, Any] | None,
    notes: list[str],
) -> tuple[HeadLayout | None, list[AttentionLayer]]:
    """The layers whose tensors are there, in one shape, at both ends."""
    shapes = {name: base.tensors[name].shape for name in sorted(base.tensors, key=by_number)}
    config = base.config or (tuned.config if tuned else None)
    if config is None and mapping is None and (count := base.heads or (tuned.heads if tuned else None)):
        mapping = {"heads": count}
    try:
        layout = find_layout(shapes, config, mapping)
    except BadArgument as error:
        if mapping is not None:
            raise
        notes.append(f"no heads: {error}")
        return None, []
    notes += layout.notes
    other = tuned or base
    complete = [
        layer
        for layer in layout.layers
        if all(key in names and _comparable(base.tensors[key], other.tensors[names[key]]) for key in layer.keys)
    ]
    if len(complete) < len(layout.layers):
        notes.append(
            f"heads of {len(layout.layers) - len(complete)} layers are left out: their tensors are not at both ends"
        )
    return layout, complete


def _comparable(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and "float" in first.dtype and "float" in second.dtype


def _size_of(layer: AttentionLayer, base: WeightSource) -> int:
    return sum(math.prod(base.tensors[key].shape) for key in layer.keys)


def _heads(
    layer: AttentionLayer,
    before: Callable[[str], np.ndarray],
    after: Callable[[str], np.ndarray],
    exact_base: bool,
) -> Iterator[Heads]:
    """Both circuits of a layer."""
    ends = [layer.split({key: on_grid(read(key)) for key in layer.keys}) for read in (before, after)]
    parts: dict[str, list[HeadChange]] = {}
    for number, few in enumerate(few_heads(*ends)):
        for change in head_changes(*few, exact_base=exact_base, seed=number):
            parts.setdefault(change.circuit, []).append(change)
    for circuit, found in parts.items():
        arrays = (np.concatenate([change[place] for change in found]) for place in range(1, len(found[0])))
        yield Heads(layer.layer, layer.stack, HeadChange(circuit, *arrays))


# ---- adapters --------------------------------------------------------------------------------------------


def _product(adapter: Adapter, module: AdapterModule) -> ProductChange:
    a, b = adapter.factors(module)
    try:
        return ProductChange(b, a, module.scaling)
    except ValueError as error:
        raise BadArgument(f"{adapter.where}: {module.name}: {error}") from error


def _norm(base: WeightSource, key: str) -> float:
    shape = base.tensors[key].shape
    step = max(1, (1 << 21) // shape[1])
    pieces = (base.rows(key, start, start + step).astype(np.float64) for start in range(0, shape[0], step))
    return math.sqrt(sum(float(np.vdot(piece, piece)) for piece in pieces))


def _adapted(
    module: AdapterModule,
    name: str,
    change: ProductChange,
    relative: float | None = None,
    shape: tuple[int, ...] | None = None,
) -> Module:
    return Module(
        name=name,
        shape=(shape[0], shape[1]) if shape else change.shape,
        dtype=change.stored[0].dtype.name,
        relative_change=relative,
        spectrum=change.spectrum,
        rank_above_floor=change.rank_above_floor,
        floor=change.floor,
        kind="embedding" if module.embedding else "linear",
        rank=module.rank,
        remark="DoRA" if module.dora else "",
    )


@one_thread()
def _diff_adapter(adapter: Adapter, tick: Tick) -> Difference:
    modules, changes = [], {}
    for number, module in enumerate(adapter.modules):
        tick(number / len(adapter.modules), module.name)
        change = changes[module.name] = _product(adapter, module)
        modules.append(_adapted(module, module.name, change))
    notes = [*adapter.notes, "heads need the base: saddlescope diff BASE ADAPTER"]
    return Difference(adapter.where, None, None, notes, modules, [], changes, None, adapter)


@one_thread()
def _diff_base_and_adapter(
    base: WeightSource, adapter: Adapter, mapping: Mapping[str, Any] | None, heads: bool, tick: Tick
) -> Difference:
    paths = _paths(base)
    keys = {f"{name}.weight": key for key, name in (paths or peft_names(base.tensors, base.config or {})).items()}
    wanted = [f"{module.name}.weight" for module in adapter.modules]
    names = matched_names(wanted, base.tensors) | {name: keys[name] for name in wanted if name in keys}
    absent = [module.name for module in adapter.modules if f"{module.name}.weight" not in names]
    if len(absent) == len(adapter.modules):
        raise BadArgument(f"{adapter.where} does not fit {base.where}, which has no {listed(absent)}")
    notes = [*base.notes, *adapter.notes]
    if absent:
        notes.append(f"left out, not in {base.where}: {listed(absent)}")
    modules, changes, products = [], {}, {}
    for number, module in enumerate(adapter.modules):
        tick(number / len(adapter.modules), module.name)
        key = names.get(f"{module.name}.weight")
        if key is None:
            continue
        change = _product(adapter, module)
        shape = base.tensors[key].shape
        # PEFT keeps one flag for a model that may mix Conv1D with linear layers: the shape tells, where it can.
        turned = module.transposed if shape[0] == shape[1] else shape == change.shape[::-1]
        if shape != (change.shape[::-1] if turned else change.shape):
            raise BadArgument(f"{module.name} of {adapter.where} is {change.shape}, {key} of {base.where} is {shape}")
        size = _norm(base, key)
        relative = math.sqrt(change.spectrum.energy) / size if size else math.inf
        modules.append(_adapted(module, key, change, relative, shape))
        changes[key], products[key] = change, (change, turned)

    def after(key: str) -> np.ndarray:
        values = base.read(key).astype(np.float64)
        if key not in products:
            return values
        change, turned = products[key]
        dense = change.left @ change.right.T
        return values + (dense.T if turned else dense)

    found = []
    layout, layers = _layout(base, {key: key for key in base.tensors}, None, mapping, notes) if heads else (None, [])
    for number, layer in enumerate(layers):
        tick(number / len(layers), f"heads of layer {layer.layer}")
        if any(key in products for key in layer.keys):
            found += _heads(layer, base.read, after, exact_base=True)
    family = layout.family if layout else (base.config or {}).get("model_type")
    return Difference(
        base.where,
        adapter.where,
        family,
        notes,
        modules,
        found,
        changes,
        base.config,
        adapter,
        origin=base.origin,
        paths=paths,
    )
