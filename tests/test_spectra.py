"""Spectra against dense SVDs, ranks against their definitions, rounding against planted ranks."""

from __future__ import annotations

import numpy as np
import pytest

from saddlescope.spectra import matrix as matrix_module
from saddlescope.spectra.arrays import BFLOAT16, grid_of, numpy_of, on_grid, ulp
from saddlescope.spectra.factored import change_factors, gram_spectrum, largest, norm, spectrum
from saddlescope.spectra.heads import CIRCUITS, changed_spectra, circuits, head_changes, widened
from saddlescope.spectra.layouts import HeadWeights
from saddlescope.spectra.matrix import MatrixChange, Spectrum
from saddlescope.spectra.product import ProductChange
from saddlescope.spectra.ranks import energy_rank, entropy_rank, entropy_rank_bounds, numerical_rank, stable_rank
from saddlescope.spectra.rounding import noise_edge, whiten
from saddlescope.spectra.top import all_singular_values, top_triplets

from .planted import FORMATS, plain, planted


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def dense_change(left, right, left_after, right_after):
    """The change of the product, formed whole in extended precision before it is rounded to float64."""
    wide = [np.asarray(array, np.longdouble) for array in (left, right, left_after, right_after)]
    return (wide[2] @ wide[3].T - wide[0] @ wide[1].T).astype(np.float64)


@pytest.mark.parametrize("increment", [1.0, 1e-2, 1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize(("kind", "bound"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_factored_change_against_dense(increment, kind, bound, rng):
    """1e-12 of the largest in float64, 1e-6 in float32, however small the change is beside its start."""
    left, right = (rng.normal(size=(96, 12)).astype(kind) for _ in range(2))
    left_after = (left + kind(increment) * rng.normal(size=left.shape).astype(kind)).astype(kind)
    right_after = (right + kind(increment) * rng.normal(size=right.shape).astype(kind)).astype(kind)
    found = spectrum(*change_factors(left, right, left_after, right_after))
    assert found.dtype == kind
    exact = np.linalg.svd(dense_change(left, right, left_after, right_after), compute_uv=False)
    assert found.shape == (24,)
    assert np.abs(found - exact[:24]).max() <= bound * exact[0]


def test_the_other_form_would_fail(rng):
    """Without the cancellation-free form float32 loses a change of 1e-8: the test above is able to fail."""
    left, right = (rng.normal(size=(96, 12)).astype(np.float32) for _ in range(2))
    after = left + np.float32(1e-7) * rng.normal(size=left.shape).astype(np.float32)
    found = spectrum(np.concatenate([after, -left], 1), np.concatenate([right, right], 1))
    exact = np.linalg.svd(dense_change(left, right, after, right), compute_uv=False)
    assert np.abs(found - exact[:24]).max() > 1e-2 * exact[0]


@pytest.mark.parametrize(("rows", "columns", "width"), [(5, 40, 8), (40, 5, 8), (3, 4, 8), (1, 9, 2), (7, 7, 1)])
def test_shapes(rows, columns, width, rng):
    left, right = rng.normal(size=(2, rows, width)), rng.normal(size=(2, columns, width))
    found = spectrum(left, right)
    exact = np.linalg.svd(left @ np.swapaxes(right, 1, 2), compute_uv=False)
    size = min(rows, columns, width)
    assert found.shape == (2, size)
    assert np.allclose(found, exact[:, :size], rtol=0, atol=1e-13 * exact.max())
    assert np.allclose(norm(left, right), np.linalg.norm(exact, axis=-1), rtol=1e-12)


@pytest.mark.parametrize("library", ["numpy", "torch", "jax.numpy"])
def test_gram_form_has_the_accuracy_it_states(library, rng):
    """A spectrum over six decades: 1e-6 of the largest in float64; the stable rank to 1e-12."""
    left, right = rng.normal(size=(3, 64, 16)) * np.logspace(0, -6, 16), rng.normal(size=(3, 50, 16))
    exact = spectrum(left, right)
    ours = [pytest.importorskip(library).asarray(array) for array in (left, right)]
    found = gram_spectrum(*ours)
    assert isinstance(found, type(ours[0]))
    found = numpy_of(found)
    assert np.abs(found - exact).max() <= 1e-6 * exact.max()
    assert np.abs(found - exact)[:, :8].max() <= 1e-12 * exact.max()
    assert np.allclose(stable_rank(found), stable_rank(exact), rtol=1e-12)


def test_nothing_has_no_spectrum():
    assert not gram_spectrum(np.zeros((5, 2)), np.ones((4, 2))).any()
    assert Spectrum(np.zeros(0), 0.0, 0).stable_rank == 0


def test_largest_is_the_spectral_norm(rng):
    left, right = rng.normal(size=(4, 60, 8)), rng.normal(size=(4, 50, 8))
    exact = spectrum(left, right)[:, 0]
    found = largest(left, right, rng)
    assert np.all(found <= exact * (1 + 1e-12)) and np.all(found >= 0.98 * exact)


# ---- ranks -----------------------------------------------------------------------------------------------


def test_ranks_by_their_definitions():
    s = np.array([2.0, 1.0, 1.0, 0.0])
    assert stable_rank(s) == 6 / 4
    shares = np.array([4, 1, 1]) / 6
    assert np.isclose(entropy_rank(s), np.exp(-(shares * np.log(shares)).sum()), rtol=1e-14)
    assert numerical_rank(s, 0.4) == 3 and numerical_rank(s, 0.5) == 1
    assert energy_rank(s, 4 / 6) == 1 and energy_rank(s, 0.7) == 2 and energy_rank(s, 1.0) == 3
    flat = np.ones((2, 5))
    assert np.allclose(stable_rank(flat), 5) and np.allclose(entropy_rank(flat), 5)
    zero = np.zeros(3)
    assert stable_rank(zero) == entropy_rank(zero) == numerical_rank(zero, 0.1) == energy_rank(zero, 0.9) == 0
    with pytest.raises(ValueError, match="share"):
        energy_rank(s, 0)


def test_entropy_rank_of_a_top_is_bounded(rng):
    for _ in range(50):
        s = np.sort(rng.exponential(size=40) ** 3)[::-1]
        known = int(rng.integers(1, 40))
        least, most = entropy_rank_bounds(s[:known], float((s**2).sum()), 40)
        assert least * (1 - 1e-12) <= entropy_rank(s) <= most * (1 + 1e-12)


# ---- precision -------------------------------------------------------------------------------------------


def test_ulp_is_the_gap_to_the_next_float():
    for kind in (np.float16, np.float32, np.float64):
        values = np.array([1.0, 1.5, 3.0, -0.1, 1e-7, 0.0, 6e-8], kind)
        assert np.array_equal(ulp(values), np.spacing(np.abs(values)).astype(np.float64))
    values = np.array([1.0, 1.5, 3.0, -0.1], BFLOAT16)
    assert np.array_equal(ulp(values), [2.0**-7, 2.0**-7, 2.0**-6, 2.0**-11])


def test_grid_of_widened_weights(rng):
    values = rng.normal(size=50)
    for kind in (BFLOAT16, np.dtype(np.float16), np.dtype(np.float32)):
        stored = values.astype(kind)
        assert grid_of(stored.astype(np.float64)) == kind
        assert on_grid(stored.astype(np.float64)).dtype == kind
    assert grid_of(values) == np.float64


# ---- plain matrices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(70, 30), (30, 70), (2, 2), (5000, 7)])
def test_all_singular_values_piece_by_piece(shape, monkeypatch, rng):
    monkeypatch.setattr(matrix_module, "PIECE", 64)
    before, after = rng.normal(size=shape), rng.normal(size=shape)
    change = MatrixChange.of(before, after)
    exact = np.linalg.svd(after - before, compute_uv=False)
    assert change.spectrum.complete
    assert np.allclose(change.spectrum.singular_values, exact, rtol=0, atol=1e-12 * exact[0])
    relative = np.linalg.norm(after - before) / np.linalg.norm(before)
    assert np.isclose(change.summary.relative_change, relative, rtol=1e-12)


def test_top_of_a_large_matrix_is_certified(monkeypatch, rng):
    """What is listed is right, and what is not is bounded by the exact norm minus what is."""
    monkeypatch.setattr(matrix_module, "SMALL", 50)
    case = plain(rng, (400, 300), 8, 1e-2)
    found = MatrixChange.of(case.before, case.after)
    exact = np.linalg.svd(case.after.astype(float) - case.before.astype(float), compute_uv=False)
    spectrum_found = found.spectrum
    known = len(spectrum_found.singular_values)
    assert found.rank_above_floor == 8 and known == 16
    # 16-bit weights are swept in float32.
    assert np.allclose(spectrum_found.singular_values[:8], exact[:8], rtol=1e-5)
    assert np.all(spectrum_found.singular_values <= exact[:known] * (1 + 1e-6))
    for rank in (0, 5, 8, known):
        left_out = np.sqrt((exact[rank:] ** 2).sum())
        assert left_out * (1 - 1e-6) <= spectrum_found.residual(rank) <= 1.02 * left_out
    assert np.allclose(found.triplets(8).values, spectrum_found.singular_values[:8], rtol=1e-12)
    least, most = spectrum_found.entropy_rank_bounds
    assert least <= entropy_rank(exact) <= most


def test_a_matrix_that_is_not_low_rank_is_computed_whole(monkeypatch, rng):
    monkeypatch.setattr(matrix_module, "SMALL", 20)
    dense = rng.normal(size=(90, 60))
    assert top_triplets(lambda: iter([(slice(0, 90), dense)]), dense.shape, lambda s: False, first=4) is None
    exact = np.linalg.svd(dense, compute_uv=False)
    assert np.allclose(all_singular_values(lambda: iter([(slice(0, 90), dense)]), dense.shape), exact, rtol=1e-12)
    found = MatrixChange.of(np.zeros((90, 60)), dense)
    assert found.spectrum.complete and np.allclose(found.spectrum.singular_values, exact, rtol=1e-12)
    left, values, right = found.triplets(60)
    assert np.allclose((left * values) @ right.T, dense, atol=1e-12)


def test_bad_matrices_are_named():
    good = np.ones((3, 4), np.float32)
    broken = good.copy()
    broken[2, 1] = np.nan
    with pytest.raises(ValueError, match="tuned holds nan at row 2, column 1"):
        _ = MatrixChange.of(good, broken).summary
    with pytest.raises(ValueError, match="one shape"):
        MatrixChange.of(good, np.ones((4, 3), np.float32))
    with pytest.raises(ValueError, match="int64"):
        _ = MatrixChange.of(good, np.ones((3, 4), np.int64)).summary


def test_no_change_has_no_rank():
    same = np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)
    change = MatrixChange.of(same, same.copy())
    assert change.rank_above_floor == 0 and change.floor == 0 and change.hidden_at_least == 0
    assert change.spectrum.stable_rank == 0 and change.summary.unchanged == 1


# ---- rounding --------------------------------------------------------------------------------------------


def test_planted_ranks_are_found(rng):
    """The planted rank wherever its least singular value is twice the floor, in 99% of draws; else never too many.

    120 draws of what the benchmark draws a thousand times, of the smaller shapes.
    """
    seen = wrong = 0
    for _ in range(120):
        case = planted(rng, shapes=((64, 64), (64, 256), (256, 256), (384, 512)))
        found = MatrixChange.of(case.before, case.after)
        if case.values[-1] > 2 * found.floor:
            seen += 1
            wrong += found.rank_above_floor != case.rank
        else:
            assert (case.values > 2 * found.floor).sum() <= found.rank_above_floor <= case.rank
        assert found.rank_above_floor + found.hidden_at_least <= case.rank
    assert seen >= 100 and wrong <= 1


def test_ordinary_rules_fail_where_the_floor_does_not(rng):
    """A rank-8 change of 3e-3 through bf16: 99% of the energy needs hundreds of directions."""
    case = plain(rng, (512, 512), 8, 3e-3)
    found = MatrixChange.of(case.before, case.after)
    assert found.rank_above_floor == 8
    assert energy_rank(found.spectrum.singular_values, 0.99) > 100


def test_hidden_directions_are_told(rng):
    """Many directions below the floor leave an energy that rounding cannot: some are announced, never too many."""
    case = plain(rng, (64, 64), 48, 7e-3)
    found = MatrixChange.of(case.before, case.after)
    assert found.rank_above_floor < 48
    assert 0 < found.hidden_at_least <= 48 - found.rank_above_floor


@pytest.mark.parametrize("kind", list(FORMATS))
def test_rounding_alone_has_no_rank(kind, rng):
    """Two roundings of weights that moved by a rank-one change that is then taken out again: nothing is above
    the edge."""
    over = 0
    for _ in range(20):
        case = planted(rng, shapes=((96, 160),), ranks=(1,), formats=(kind,), sizes=(3e-2, 3e-2))
        over += MatrixChange.of(case.before, case.after).rank_above_floor > 1
    assert over == 0


def test_rows_that_did_not_change_are_left_out(rng):
    before = rng.normal(size=(300, 40)).astype(BFLOAT16)
    after = before.copy()
    after[:30] = (before[:30].astype(float) + rng.normal(size=(30, 1)) @ rng.normal(size=(1, 40))).astype(BFLOAT16)
    found = MatrixChange.of(before, after)
    assert found.whitening.shape == (30, 40) and found.rank_above_floor == 1
    assert np.isclose(found.summary.unchanged, 0.9, atol=0.02)


def test_sinkhorn_makes_rounding_even(rng):
    change = rng.normal(size=(50, 80))
    variance = np.exp(rng.normal(size=(50, 1)) * 2 + rng.normal(size=(1, 80)) * 2 + rng.normal(size=(50, 80)))
    found = whiten(lambda: iter([(slice(0, 50), change, variance)]), (50, 80))
    even = found.row[:, None] ** 2 * variance * found.column**2
    assert np.abs(even.mean(0) - 1).max() < 1e-2 and np.abs(even.mean(1) - 1).max() < 1e-2


def test_noise_ends_at_the_edge(rng):
    """Tracy-Widom at 99.99%: of 200 normal matrices none passes, and the mean lies where Johnstone puts it."""
    top = np.array([np.linalg.norm(rng.normal(size=(40, 60)), 2) for _ in range(200)])
    assert top.max() < noise_edge(40, 60)
    a, b = np.sqrt(39), np.sqrt(60)
    scaled = (top**2 - (a + b) ** 2) / ((a + b) * (1 / a + 1 / b) ** (1 / 3))
    # Mean -1.2065 and deviation 1.27 of the law; 0.09 is one standard error of 200 draws, the shape adds as much.
    assert abs(scaled.mean() + 1.2065) < 0.3


def test_exact_base_lowers_the_floor(rng):
    case = plain(rng, (128, 128), 8, 1e-2)
    both = MatrixChange.of(case.before, case.after).floor
    one = MatrixChange.of(case.before, case.after, exact_base=True).floor
    assert np.isclose(one / both, np.sqrt(0.5), rtol=0.02)


def test_a_wide_copy_of_narrow_weights_has_the_narrow_floor(rng):
    case = planted(rng, shapes=((64, 64),), formats=("bfloat16",))
    narrow = MatrixChange.of(case.before, case.after)
    wide = MatrixChange.of(case.before.astype(np.float32), case.after.astype(np.float32))
    assert wide.floor == narrow.floor and wide.summary.grids == (BFLOAT16, BFLOAT16)


@pytest.mark.parametrize(("kind", "rank"), [("float32", 16), ("float32", 64), ("bfloat16", 16)])
def test_merged_adapter_has_its_rank(kind, rank, torch):
    """Also where the merged change is nearly as large as the weights, and was computed in their precision."""
    torch.manual_seed(0)
    dtype = getattr(torch, kind)
    for scale in (0.1, 0.03):
        base = (0.02 * torch.randn(200, 300)).to(dtype)
        b, a = torch.randn(200, rank).to(dtype), (0.02 * scale * torch.randn(rank, 300)).to(dtype)
        merged = base + (b @ a).to(dtype)
        assert MatrixChange.of(numpy_of(base), numpy_of(merged)).rank_above_floor == rank


# ---- products and heads ----------------------------------------------------------------------------------


def test_product_change(rng):
    b, a = rng.normal(size=(30, 8)).astype(np.float32), rng.normal(size=(8, 20)).astype(np.float32)
    b[:, 5:] = 0
    found = ProductChange(b, a, 0.5)
    dense = 0.5 * b.astype(float) @ a.astype(float)
    exact = np.linalg.svd(dense, compute_uv=False)
    assert np.allclose(found.spectrum.singular_values, exact[:8], atol=1e-12 * exact[0])
    assert found.rank_above_floor == 5
    left, values, right = found.triplets(5)
    assert np.allclose((left * values) @ right.T, dense, atol=1e-12)
    with pytest.raises(ValueError, match=r"\[m, r\]"):
        ProductChange(b, a.T)
    a[0, 0] = np.inf
    with pytest.raises(ValueError, match="A holds"):
        ProductChange(b, a)


def some_heads(rng, heads=4, shared=2, width=24, size=6, dtype: type = np.float32):
    shapes = [(heads, width, size), (shared, width, size), (shared, width, size), (heads, size, width)]
    return HeadWeights(*(0.1 * rng.normal(size=shape).astype(dtype) for shape in shapes))


def moved(weights, rng, by=1e-3):
    return HeadWeights(*(array + by * rng.normal(size=array.shape).astype(array.dtype) for array in weights))


def test_heads_against_dense_products(rng):
    before = some_heads(rng)
    after = moved(before, rng)
    exact = {}
    for head in range(4):
        ends = [widened(weights) for weights in (before, after)]
        exact["QK", head] = [w.query[head] @ w.key[head // 2].T for w in ends]
        exact["OV", head] = [w.value[head // 2] @ w.output[head] for w in ends]
    for change in head_changes(before, after):
        for head in range(4):
            start, end = exact[change.circuit, head]
            values = np.linalg.svd(end - start, compute_uv=False)
            assert np.abs(change.singular_values[head] - values[:12]).max() <= 1e-12 * values[0]
            relative = np.linalg.norm(end - start) / np.linalg.norm(start)
            assert np.isclose(change.relative_change[head], relative, rtol=1e-9)
            assert change.rank[head] == 12  # all directions move, far above the rounding of float32
            assert 2 < change.random_stable_rank[head] < 12  # dominated by the start's own few strong directions
    assert list(changed_spectra(widened(before), widened(after))) == list(CIRCUITS)


def test_heads_floor_is_what_rounding_gives(rng):
    """A change of rank one of all queries through bf16 has rank one in QK; OV, which did not change, has none."""
    exact = some_heads(rng, dtype=np.float64)
    stored = HeadWeights(*(array.astype(BFLOAT16) for array in exact))
    direction = 0.05 * rng.normal(size=(24, 1)) @ rng.normal(size=(1, 6))
    after = HeadWeights((exact.query + direction).astype(BFLOAT16), *stored[1:])
    for change in head_changes(stored, after):
        expected = 1 if change.circuit == "QK" else 0
        assert np.all(change.rank == expected), change.circuit


@pytest.mark.parametrize(("width", "size"), [(64, 8), (256, 32)])
def test_rounded_heads_gain_no_rank(width, size):
    """Planted rank 2 of Gaussian and of heavy-tailed heads with a huge row: no more, in 64 heads of each."""
    rng = np.random.default_rng(21)  # of heavy-tailed heads, one in some 250 has a direction too many
    for heavy in (False, True):
        before = [
            rng.standard_t(2.5, size=(32, width, size)) if heavy else rng.normal(size=(32, width, size)) for _ in "qkv"
        ]
        before.append(np.swapaxes(before[2], 1, 2)[:, :, rng.permutation(width)].copy())
        if heavy:
            before[0][:, 3] *= 30
        low = rng.normal(size=(32, width, 2)) @ rng.normal(size=(32, 2, size))
        low *= 0.1 * np.linalg.norm(before[0]) / np.linalg.norm(low)
        after = [before[0] + low, before[1], before[2] + low, before[3]]
        ends = [HeadWeights(*(array.astype(BFLOAT16) for array in end)) for end in (before, after)]
        for change in head_changes(*ends):
            assert change.rank.max() == 2, change.circuit
            assert heavy or change.rank.min() == 2


def test_exact_changes_of_heads_have_their_rank(rng):
    """What was not rounded (an adapter over its base) is counted up to the errors of computing alone."""
    before = some_heads(rng, width=128, size=16, dtype=np.float64)
    low = [0.1 * rng.normal(size=(128, 2)) @ rng.normal(size=(2, 16)) for _ in range(4)]
    after = HeadWeights(before.query + low[0], before.key + low[1], before.value + low[2], before.output + low[3].T)
    for change in head_changes(before, after, exact_base=True):
        assert np.all(change.rank == 4)


def test_zeros_do_not_choose_the_grid(monkeypatch, rng):
    """A float16 grid with rows of zeros, which lie on every grid, in a piece of their own."""
    monkeypatch.setattr(matrix_module, "PIECE", 40)
    before = np.concatenate([rng.normal(size=(30, 10)).astype(np.float16), np.zeros((30, 10), np.float16)])
    after = before + np.float16(0.01)
    found = MatrixChange.of(before.astype(np.float32), after.astype(np.float32))
    assert found.summary.grids == (np.float16, np.float16)


def test_few_entries_prove_nothing(rng):
    """Of a change of rank one in a small matrix no hidden direction is announced."""
    for shape in ((2, 2), (8, 8), (16, 16), (2, 64)):
        for _ in range(40):
            weights = rng.normal(size=shape)
            after = weights + 0.1 * rng.normal(size=(shape[0], 1)) @ rng.normal(size=(1, shape[1]))
            found = MatrixChange.of(weights.astype(BFLOAT16), after.astype(BFLOAT16))
            assert found.rank_above_floor + found.hidden_at_least <= 1, shape


def test_rounding_of_outliers_is_told(rng):
    """One huge column: its rounding is stronger than the change that was found elsewhere."""
    weights = rng.normal(size=(128, 128))
    weights[:, 5] *= 1000
    change = 0.1 * rng.normal(size=(128, 1)) @ rng.normal(size=(1, 128))
    change[:, 5] = 0
    found = MatrixChange.of(weights.astype(BFLOAT16), (weights + change).astype(BFLOAT16))
    assert found.rank_above_floor == 1 and found.outliers_dominate
    even = plain(rng, (128, 128), 1, 1e-2)
    assert not MatrixChange.of(even.before, even.after).outliers_dominate


def test_the_floor_is_the_same_piece_by_piece(monkeypatch, rng):
    """Single huge weights, in whichever piece they stand, raise it."""
    weights = rng.standard_t(1.5, size=(70, 30))
    ends = [(size * weights).astype(BFLOAT16) for size in (1, 1.01)]
    whole = MatrixChange.of(*ends).whitening
    assert whole.edge > noise_edge(*whole.shape)
    monkeypatch.setattr(matrix_module, "PIECE", 64)
    assert MatrixChange.of(*ends).whitening.edge == pytest.approx(whole.edge, rel=1e-12)


def test_circuits_of_torch_arrays_stay_torch(rng, torch):
    before = some_heads(rng, dtype=np.float64)
    after = moved(before, rng)
    on_torch = [HeadWeights(*(torch.tensor(array) for array in weights)) for weights in (before, after)]
    assert isinstance(circuits(on_torch[0])["QK"].left, torch.Tensor)
    exact = changed_spectra(before, after)
    for name, values in changed_spectra(*on_torch).items():
        assert isinstance(values, torch.Tensor)
        assert np.abs(numpy_of(values) - exact[name]).max() <= 1e-6 * exact[name].max()


def test_numpy_of_keeps_precision(torch):
    values = torch.randn(5, 3, requires_grad=True)
    assert numpy_of(values).dtype == np.float32
    half = values.to(torch.bfloat16)
    assert numpy_of(half).dtype == BFLOAT16
    assert np.array_equal(numpy_of(half).astype(np.float32), half.float().detach().numpy())
