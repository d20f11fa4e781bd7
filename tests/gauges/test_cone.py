"""The cone-nuclear norm: exact for one output, bounded from both sides for more."""

from __future__ import annotations

import pytest
import torch

from provenet.cones import Cones, ImplicitCones, ImplicitRows, PickedSigns
from provenet.gauges import Bounds, ConeNuclear, NuclearNorm
from provenet.testing import check_cone_gauge


def gauge(N: int, p: int, P: int, seed: int) -> ConeNuclear[Cones]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(N, p, generator=generator, dtype=torch.float64)
    inside = torch.randn(P, p, generator=generator, dtype=torch.float64)
    return ConeNuclear(Cones.of(rows, inside @ rows.T >= 0, inside))


def stack(P: int, p: int, q: int, seed: int) -> torch.Tensor:
    return torch.randn(P, p, q, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("N", "p"), [(1, 2), (10, 2), (25, 3), (40, 6), (3, 8)])
def test_one_output_is_exact(N: int, p: int) -> None:
    cone, Z = gauge(N, p, 6, seed=p), stack(6, p, 1, seed=N)
    Z[0] = cone.region.inside[0][:, None]
    Z[1] = -2 * cone.region.inside[1][:, None]
    bounds = cone.bounds(Z)
    assert bounds.kind == "exact"
    assert bool((bounds.lower <= bounds.upper).all())
    assert bool((bounds.upper - bounds.lower <= 1e-7 * bounds.upper).all())
    assert float(bounds.upper[0]) == pytest.approx(1.0, rel=1e-7)  # in the cone: its length
    assert float(bounds.upper[1]) == pytest.approx(2.0, rel=1e-7)
    assert bool((bounds.upper >= Z.norm(dim=(1, 2)) * (1 - 1e-9)).all())
    assert torch.allclose(cone.bounds(3.5 * Z).upper, 3.5 * bounds.upper, rtol=1e-7)


def test_half_a_line_and_its_sum_by_hand() -> None:
    """K = the quadrant: z = a − b splits into positive and negative part."""
    quadrant = ConeNuclear(
        Cones.of(torch.eye(2).double(), torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 2, dtype=torch.float64))
    )
    Z = torch.tensor([[[3.0], [-4.0]]], dtype=torch.float64)
    assert float(quadrant.bounds(Z).upper) == pytest.approx(7.0, rel=1e-8)


def test_slip_14_the_plain_nuclear_norm_is_smaller() -> None:
    """X = D = I: every matrix is in the span of K, yet V = (1, −1)ᵀgᵀ costs 2‖g‖, not √2‖g‖."""
    quadrant = ConeNuclear(
        Cones.of(torch.eye(2).double(), torch.ones(1, 2, dtype=torch.bool), torch.ones(1, 2, dtype=torch.float64))
    )
    g = torch.tensor([[0.3, -1.2, 0.5]], dtype=torch.float64)
    V = (torch.tensor([[1.0], [-1.0]], dtype=torch.float64) @ g)[None]
    bounds = quadrant.bounds(V)
    assert float(bounds.upper) == pytest.approx(2 * float(g.norm()), rel=1e-4)
    assert float(bounds.lower) == pytest.approx(2 * float(g.norm()), rel=1e-4)
    assert float(NuclearNorm().values(V)) == pytest.approx(2**0.5 * float(g.norm()), rel=1e-12)


@pytest.mark.parametrize(("N", "p", "q"), [(5, 2, 2), (10, 2, 3), (10, 3, 2)])
def test_several_outputs_are_bounded_and_factorised(N: int, p: int, q: int) -> None:
    cone, Z = gauge(N, p, 3, seed=N), stack(3, p, q, seed=q)
    bounds = cone.bounds(Z)
    assert bool((bounds.lower <= bounds.upper).all())
    assert bool((bounds.upper <= bounds.lower * (1 + 1e-4)).all())
    assert bool((bounds.upper >= NuclearNorm().values(Z)).all())
    factors = cone.factorise(Z)
    assert torch.allclose(factors.stack(3), Z, atol=1e-9)
    assert float(cone.region.slack(factors.left, factors.gate).min()) >= -1e-9
    assert float(factors.penalty()) == pytest.approx(float(bounds.upper.sum()), rel=1e-9)
    assert torch.allclose(cone.bounds(2 * Z).upper, 2 * bounds.upper, rtol=1e-4)


@pytest.mark.parametrize("q", [1, 2])
def test_hoelder_with_the_polar(q: int) -> None:
    cone = gauge(8, 2, 4, seed=q)
    Z, G = stack(4, 2, q, seed=1), stack(4, 2, q, seed=2)
    product = (G * Z).sum(dim=(1, 2)).abs()
    assert bool((product <= cone.bounds(Z).upper * cone.polar(G).upper * (1 + 1e-9)).all())


@pytest.mark.parametrize(("p", "q"), [(2, 1), (2, 3), (3, 2), (5, 1), (5, 2)])
def test_the_polar_bounds_its_largest_gate_and_the_atom_attains_it(p: int, q: int) -> None:
    cone, G = gauge(12, p, 20, seed=p), stack(20, p, q, seed=q)
    polar = cone.polar(G)
    u, v = cone.atom(G)
    value = torch.einsum("kp,kpq,kq->k", u, G, v)
    assert bool((value <= polar.upper * (1 + 1e-9)).all())
    assert float(polar.upper.max()) == pytest.approx(float(value.max()), rel=1e-6)
    assert bool((polar.lower <= polar.upper).all())


def test_the_gates_above_a_threshold_come_with_their_neurons() -> None:
    cone, G = gauge(12, 2, 20, seed=4), stack(20, 2, 3, seed=4)
    u, v = cone.atom(G)
    value = torch.einsum("kp,kpq,kq->k", u, G, v)
    threshold = float(value.median())
    gates, lefts, rights = cone.violated(G, threshold)
    assert sorted(gates.tolist()) == torch.nonzero(value > threshold).flatten().tolist()
    again = torch.einsum("kp,kpq,kq->k", lefts, G[gates], rights)
    assert bool((again[:-1] >= again[1:]).all())


def test_what_it_cannot_do_it_does_not_have() -> None:
    cone = gauge(5, 2, 1, seed=0)
    assert not hasattr(cone, "prox")
    assert not hasattr(cone, "values")


def implicit(cones: Cones) -> ImplicitCones:
    """The same cones, their rows applied and picked only."""
    rows = ImplicitRows(
        lambda u, span: u @ cones.rows[span].T,
        lambda index: cones.rows[index],
        lambda u, span: torch.full((len(u), span.stop - span.start), 1e-15, dtype=u.dtype),
        torch.linalg.vector_norm(cones.rows, dim=1),
        cones.rows.shape[1],
        1,
    )
    return ImplicitCones(rows, PickedSigns.of(cones.signs), cones.inside)


@pytest.mark.parametrize("q", [1, 2])
def test_rows_that_are_applied_only_have_the_same_gauge(q: int) -> None:
    cone, Z, G = gauge(8, 3, 4, seed=1), stack(4, 3, q, seed=1), stack(4, 3, q, seed=2)
    other = ConeNuclear(implicit(cone.region))
    assert float(other.largest(G).upper.max()) == pytest.approx(float(cone.largest(G).upper.max()), rel=1e-7)
    torch.testing.assert_close(other.bounds(Z).upper, cone.bounds(Z).upper, rtol=1e-4, atol=0)


@pytest.mark.parametrize("q", [1, 2])
def test_without_a_table_bounds_are_looser_and_hold(q: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provenet.cones.implicit._TABLE_NUMBERS", 0)
    cone, Z, G = gauge(8, 3, 4, seed=1), stack(4, 3, q, seed=1), stack(4, 3, q, seed=2)
    other = ConeNuclear(implicit(cone.region))
    assert other.region.tables == []
    torch.testing.assert_close(other.polar(G).upper, NuclearNorm().polar(G).upper, rtol=1e-12, atol=0)
    loose, tight = other.bounds(Z), cone.bounds(Z)
    assert bool((loose.lower <= tight.upper).all())
    assert bool((loose.upper >= tight.lower).all())
    neurons = other.factorise(Z)
    torch.testing.assert_close(neurons.stack(4), Z, rtol=1e-9, atol=1e-9)
    assert float(cone.region.slack(neurons.left, neurons.gate).min()) >= -1e-12


def test_the_contract_of_gauges_of_cones() -> None:
    check_cone_gauge(gauge(7, 2, 5, seed=3))
    check_cone_gauge(gauge(9, 4, 3, seed=4))
    check_cone_gauge(ConeNuclear(implicit(gauge(9, 4, 3, seed=4).region)))


def test_an_upper_bound_that_is_too_small_is_found() -> None:
    class Hopeful(ConeNuclear):
        def polar(self, stack: torch.Tensor, enough: float = 0.0) -> Bounds:
            found = super().polar(stack, enough)
            return Bounds(0.9 * found.lower, 0.9 * found.upper)

    with pytest.raises(AssertionError, match="polar"):
        check_cone_gauge(Hopeful(gauge(7, 2, 5, seed=3).region))


def test_where_no_gate_pulls_there_are_no_atoms() -> None:
    """Of several outputs in more than three dimensions, too, where a survey looks for them."""
    cone, Z = gauge(10, 5, 3, seed=0), stack(3, 5, 3, seed=1)
    gates, u, v = cone.violated(Z, 1e9)
    assert (gates.shape, u.shape, v.shape) == ((0,), (0, 5), (0, 3))
