"""FNO and B-FNO: modules against explicit circulants and Fourier-domain weights, operators, optima, bad input."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import batches
from provenet.operators.blocks.fourier_mean import FNOMeanOperator
from provenet.operators.blocks.mlp import MLPOperator
from provenet.operators.wrappers.grouped import GroupedOperator, Part
from provenet.testing import check_block, check_operator

ACTIVATIONS = ("linear", "gated_relu")
READOUTS = ("mean", "tokens")
GRIDS: list[tuple[int, tuple[int, int] | None]] = [
    (1, None),
    (4, None),
    (5, None),
    (6, (2, 3)),
    (6, (3, 2)),
    (9, (3, 3)),
]


def tokens(n: int, s: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, s, d))


def problem_of(
    block: pn.FNO, X: np.ndarray, activation: str, readout: str, c: int = 2, gates: int = 3, ratio: float = 0.1
) -> pn.Problem:
    shape = X.shape[:2] if readout == "tokens" else X.shape[:1]
    Y = np.random.default_rng(9).standard_normal((*shape, c))
    problem = pn.formulate(block, X, Y, activation, gates, beta=1.0, readout=readout)
    return problem.with_beta(ratio * problem.beta_max)


def circulant(x: np.ndarray, grid: tuple[int, int] | None) -> np.ndarray:
    """circ(X) (s, s·d) of AT Lemma 4.3: row t holds X shifted by t, cyclic in both directions on a grid."""
    s, d = x.shape
    height, width = grid or (1, s)
    rows = np.zeros((s, s, d))
    for t, tau in product(range(s), range(s)):
        row, column = (t // width + tau // width) % height, (t % width + tau % width) % width
        rows[t, tau] = x[row * width + column]
    return rows.reshape(s, s * d)


def by_hand(X: np.ndarray, network: pn.nn.FNO, groups: int = 1) -> np.ndarray:
    """AT eq. 23 and 28: Σ_j (1{circ(X^(b)) g_j ≥ 0} ∘ circ(X^(b)) u_j) v_jᵀ into the outputs of group b."""
    n, s, d = X.shape
    first, second = network.first.detach().numpy(), network.second.detach().numpy()
    q = second.shape[1]
    out = np.zeros((n, s, groups * q))
    for i, j in product(range(n), range(len(first))):
        b = int(network.group[j]) if groups > 1 else 0
        phi = circulant(X[i][:, b * d // groups : (b + 1) * d // groups], network.chosen.grid)
        hidden = phi @ first[j]
        if network.gates is not None:
            hidden = hidden * (phi @ network.gates[j].numpy() >= 0)
        out[i, :, b * q : (b + 1) * q] += np.outer(hidden, second[j])
    return out.mean(1) if network.readout == "mean" else out


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("s", "grid"), GRIDS)
def test_fno_is_a_circulant(s: int, grid: Any, activation: str, readout: str) -> None:
    X = tokens(4, s, 3)
    network = pn.nn.FNO(s, 3, 2, rank=2, n_gates=3, activation=activation, readout=readout, grid=grid).double()
    with torch.no_grad():
        np.testing.assert_allclose(network(torch.from_numpy(X)).numpy(), by_hand(X, network), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("grid", [None, (3, 2)])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_bfno_is_a_circulant_a_group(groups: int, grid: Any, activation: str, readout: str) -> None:
    X = tokens(3, 6, 4)
    network = pn.nn.BFNO(6, 4, 8, groups, rank=2, n_gates=3, activation=activation, readout=readout, grid=grid).double()
    order = torch.randperm(len(network.first), generator=torch.Generator().manual_seed(0))  # groups in any order
    shuffled = pn.nn.BFNO.from_weights(
        network.first.detach()[order],
        network.second.detach()[order],
        None if network.gates is None else network.gates[order],
        **network.settings,
        group=network.group[order],
    )
    for module in (network, shuffled):
        with torch.no_grad():
            outputs = module(torch.from_numpy(X)).numpy()
        np.testing.assert_allclose(outputs, by_hand(X, module, groups), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("s", "grid"), GRIDS)
def test_the_fourier_domain_form_has_equal_outputs(s: int, grid: Any) -> None:
    """AT Lemma 4.3: F⁻¹[(F X)_w V^(w)] W₁ (eq. 22), V any complex weights with a real inverse transform.

    The multiplication by V^(w) is a convolution with L = F⁻¹V, h[t] = Σ_r X[t − r] L[r], and ours is a correlation; so
    u_j[τ] = L[−τ] w_1j, the shift taken cyclically on the grid, d × d times d.
    """
    d, m = 3, 4
    rng = np.random.default_rng(0)
    sizes = grid or (1, s)
    X, L, W1, W2 = (
        tokens(5, s, d),
        rng.standard_normal((s, d, d)),
        rng.standard_normal((d, m)),
        rng.standard_normal((m, 2)),
    )
    V = np.fft.fft2(L.reshape(*sizes, d, d), axes=(0, 1)).reshape(s, d, d)  # the network's own weights, complex
    assert s == 1 or np.abs(V.imag).max() > 0.1 or sizes == (1, 2)

    lifted = np.fft.fft2(X.reshape(5, *sizes, d), axes=(1, 2)).reshape(5, s, d)
    mixed = np.einsum("nwf,wfg->nwg", lifted, V).reshape(5, *sizes, d)
    tokens_mixed = np.fft.ifft2(mixed, axes=(1, 2)).reshape(5, s, d)
    np.testing.assert_allclose(tokens_mixed.imag, 0, atol=1e-12)
    expected = np.maximum(tokens_mixed.real @ W1, 0) @ W2

    kernel = np.fft.ifft2(V.reshape(*sizes, d, d), axes=(0, 1)).real  # L, found again from the complex weights
    mirrored = np.roll(kernel[::-1, ::-1], (1, 1), axis=(0, 1)).reshape(s, d, d)  # L[−τ]
    u = torch.from_numpy(np.einsum("tfg,gj->jtf", mirrored, W1).reshape(m, s * d))
    # ReLU is gated ReLU whose gates are the neurons' own weights
    network = pn.nn.FNO.from_weights(u, torch.from_numpy(W2), u, readout="tokens", grid=grid)
    with torch.no_grad():
        np.testing.assert_allclose(network(torch.from_numpy(X)).numpy(), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("s", "block"),
    [
        (1, pn.FNO()),
        (4, pn.FNO()),
        (5, pn.FNO()),
        (6, pn.FNO(grid=(2, 3))),
        (4, pn.FNO(grid=(2, 2))),
        (3, pn.BFNO(groups=1)),
        (3, pn.BFNO(groups=2)),
        (4, pn.BFNO(groups=2, grid=(4, 1))),
    ],
    ids=str,
)
def test_contracts(s: int, block: pn.FNO, activation: str, readout: str) -> None:
    X = tokens(5, s, 2)
    check_block(block, X, activation, outputs=2, readout=readout)
    operator = problem_of(block, X, activation, readout).program.operator
    check_operator(operator)
    reduced = operator.reduced()
    if reduced is not None:
        check_operator(reduced[0])
        stack = torch.randn(reduced[0].stack_shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(operator.forward(reduced[1] @ stack), reduced[0].forward(stack))


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("block", [pn.FNO(), pn.BFNO(groups=2, grid=(2, 2))], ids=str)
def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch, block: pn.FNO, activation: str, readout: str) -> None:
    """A sample at a time, no features kept, X transformed batch by batch."""
    for budget in ("BATCH", "KEPT_INPUTS", "MOST_KEPT"):
        monkeypatch.setattr(batches, budget, 0)
    check_operator(problem_of(block, tokens(4, 4, 2), activation, readout).program.operator)


def test_features_are_shifted_gated_means() -> None:
    """F_k[i, τ] = (1/s) Σ_t D_k[i, t] X_i[t+τ], written out with the circulant."""
    X, grid = tokens(4, 6, 2), (2, 3)
    operator = problem_of(pn.FNO(grid=grid), X, "gated_relu", "mean").program.operator
    assert isinstance(operator, FNOMeanOperator)
    scale = operator._scale
    expected = np.stack([operator.patterns[:, i].numpy() @ circulant(x, grid) / 6 / scale for i, x in enumerate(X)])
    np.testing.assert_allclose(operator.features(slice(0, 4))[:, :, 0].numpy(), expected, rtol=1e-11, atol=1e-13)


def test_linear_with_mean_has_rank_d() -> None:
    """Shifts leave the mean as it is: p falls from s·d to d, in all groups alike."""
    for block, groups in ((pn.FNO(), 1), (pn.BFNO(groups=2), 2)):
        problem = problem_of(block, tokens(30, 5, 4), "linear", "mean")
        reduced = problem.program.operator.reduced()
        assert reduced is not None
        assert (problem.program.operator.p, reduced[0].p) == (20 // groups, 4 // groups)
        torch.testing.assert_close(reduced[1].T @ reduced[1], torch.eye(4 // groups, dtype=torch.float64))
        assert pn.solve(problem, tol=1e-6).certificate.holds(1e-6)


@pytest.mark.parametrize("readout", READOUTS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("block", [pn.FNO(), pn.FNO(grid=(2, 2)), pn.BFNO(groups=2)], ids=str)
def test_the_optimum_is_cvxpys(block: pn.FNO, activation: str, readout: str) -> None:
    problem = problem_of(block, tokens(6, 4, 2), activation, readout)
    ours, reference = pn.solve(problem, tol=1e-6), pn.solve(problem, "cvx", tol=1e-5)
    assert ours.certificate.holds(1e-6)
    assert ours.certificate.primal == pytest.approx(reference.certificate.primal, rel=1e-5)
    assert pn.certify(problem, ours.network()).primal == pytest.approx(ours.certificate.primal, rel=1e-10)


def test_one_group_is_an_fno() -> None:
    X = tokens(8, 4, 3)
    plain, grouped = (problem_of(block, X, "gated_relu", "mean") for block in (pn.FNO(), pn.BFNO()))
    assert pn.solve(plain, tol=1e-8).certificate.primal == pytest.approx(
        pn.solve(grouped, tol=1e-8).certificate.primal, rel=1e-7
    )


def test_groups_are_problems_of_their_own() -> None:
    """With the squared loss B-FNO is an FNO a group (AT Thm 4.7); so are their optima, and their gates."""
    X, Y = tokens(12, 3, 4), np.random.default_rng(1).standard_normal((12, 6))
    block = pn.BFNO(groups=2)
    beta = 0.3
    problem = pn.formulate(block, X, Y, gates=3, beta=beta)
    whole = pn.solve(problem, tol=1e-8)
    apart = 0.0
    for b in range(2):
        assert problem.gate_vectors is not None
        assert problem.gates.group is not None
        gates = problem.gate_vectors[problem.gates.group == b]
        part = pn.formulate("fno", X[:, :, 2 * b : 2 * b + 2], Y[:, 3 * b : 3 * b + 3], gates=gates, beta=beta)
        apart += pn.solve(part, tol=1e-8).certificate.primal
    assert whole.certificate.primal == pytest.approx(apart, rel=1e-6)
    network: Any = whole.network()
    assert network.group.shape == (len(network.first),)
    assert set(network.group.tolist()) <= {0, 1}


def test_groups_may_have_different_numbers_of_gates() -> None:
    """Group 0 sees zeros only, so it has one pattern; group 1 has as many as asked for."""
    X = tokens(9, 3, 2)
    X[:, :, 0] = 0
    problem = problem_of(pn.BFNO(groups=2), X, "gated_relu", "mean", gates=4)
    assert torch.bincount(problem.gates.group).tolist() == [1, 4]
    check_operator(problem.program.operator)
    solution = pn.solve(problem, tol=1e-6)
    assert solution.certificate.holds(1e-6)
    assert pn.certify(problem, solution.network()).holds(1e-6)


def test_grouped_works_for_any_operator() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    patterns = [torch.rand(6, gates, generator=generator) < 0.6 for gates in (2, 3)]
    parts = [
        Part(MLPOperator(X, patterns[0], 2), torch.tensor([3, 0]), slice(2, 4)),
        Part(MLPOperator(2 * X, patterns[1], 2), torch.tensor([1, 4, 2]), slice(0, 2)),
    ]
    operator = GroupedOperator(parts, 4)
    assert operator.stack_shape == (5, 3, 2)
    assert operator.norm_upper() == parts[1].operator.norm_upper()
    check_operator(operator)
    only = operator.restrict(torch.tensor([4, 1]))  # one group is left: the other's outputs are zero
    assert torch.equal(only.forward(torch.ones(2, 3, 2, dtype=torch.float64))[:, 2:], torch.zeros(6, 2).double())
    check_operator(only)


def test_a_user_gate_on_the_data_is_refused() -> None:
    """u = e_τ picks a pixel, here zero: by FFT it would be zero up to rounding, on either side."""
    X = tokens(5, 4, 1)
    X[2, 1] = 0
    with pytest.raises(ValueError, match="gates: gate 0 passes so close"):
        pn.formulate("fno", X, np.ones((5, 1)), gates=np.eye(4)[:1])


def test_a_sample_of_zeros_is_on_every_gate() -> None:
    X = tokens(5, 4, 2)
    X[1] = 0
    problem = problem_of(pn.FNO(), X, "gated_relu", "tokens")
    assert bool(problem.patterns.view(-1, 5, 4)[:, 1].all())
    check_block(pn.FNO(), X, "gated_relu", readout="tokens")


@pytest.mark.parametrize(
    ("block", "outputs", "message"),
    [
        (pn.FNO(grid=(2, 2)), 2, r"grid: 2 × 2 = 4 tokens, but X has 6"),
        (pn.BFNO(grid=(7, 1)), 2, r"grid: 7 × 1 = 7 tokens, but X has 6"),
        (pn.BFNO(groups=3), 3, r"groups: 3 do not divide the 4 features of X"),
        (pn.BFNO(groups=2), 3, r"groups: 2 do not divide the 3 outputs of Y"),
    ],
)
def test_bad_shapes(block: pn.FNO, outputs: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pn.formulate(block, tokens(5, 6, 4), np.ones((5, outputs)))


@pytest.mark.parametrize("name", ["fno", "bfno"])
@pytest.mark.parametrize("shape", [(5, 4), (5, 2, 3, 4)])
def test_wrong_rank_of_x(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=rf"X: block '{name}' needs tokens of shape \(n, s, d\), got"):
        pn.formulate(name, np.ones(shape), np.ones((5, 1)))


@pytest.mark.parametrize("grid", [(2,), (2, 0), (2, 3, 1), 6, (2.0, 3)])
def test_bad_grids(grid: Any) -> None:
    with pytest.raises(ValueError, match="grid: two sizes"):
        pn.FNO(grid=grid)


@pytest.mark.parametrize("groups", [0, -1, 2.0, True])
def test_bad_groups(groups: Any) -> None:
    with pytest.raises(ValueError, match="groups: a whole number from one on"):
        pn.BFNO(groups=groups)


def test_bad_modules() -> None:
    with pytest.raises(ValueError, match="groups: 3 do not divide the 4 features of X"):
        pn.nn.BFNO(5, 4, 6, groups=3)
    with pytest.raises(ValueError, match="groups: 2 do not divide the 3 outputs of Y"):
        pn.nn.BFNO(5, 4, 3, groups=2)
    with pytest.raises(ValueError, match="grid: 2 × 2 = 4 tokens, but X has 5"):
        pn.nn.FNO(5, 4, 3, grid=(2, 2))
    with pytest.raises(ValueError, match=r"group: with 2 groups each neuron's is needed, shape \(3,\)"):
        pn.nn.BFNO.from_weights(torch.ones(3, 4), torch.ones(3, 1), groups=2)
