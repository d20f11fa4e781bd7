"""Self-attention: the papers' formulas, the contracts, masks, and what a torch module must bear."""

from __future__ import annotations

import copy
import itertools
import shutil

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import batches, nn
from provenet.operators import attention_operator
from provenet.testing import check_block, check_operator
from provenet.variable import Factors

ACTIVATIONS = ("linear", "gated_relu")
READOUTS = ("mean", "tokens")
SCALES = (None, "sqrt_d")
BOTH = list(itertools.product(ACTIVATIONS, READOUTS))
EVERY = list(itertools.product(ACTIVATIONS, READOUTS, SCALES, (False, True)))


def tokens(n: int = 6, s: int = 4, d: int = 3, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n, s, d)))


def some_mask(n: int = 6, s: int = 4, seed: int = 1) -> torch.Tensor:
    mask = torch.from_numpy(np.random.default_rng(seed).random((n, s)) < 0.6)
    mask[:, 0] = True
    assert not bool(mask.all())
    return mask


def by_hand(
    X: np.ndarray, first: np.ndarray, second: np.ndarray, gates: np.ndarray | None, readout: str, scale: str | None
) -> np.ndarray:
    """One ragged sample X (s, d): Σ_j unvec(D_j (X ⊗ X) vec W₁ⱼ) X W₂ⱼ (AT eq. 11, 12), Kronecker product and all."""
    s, d = X.shape
    total = np.zeros((s, second.shape[1] // d))
    phi = np.kron(X, X)  # row (t, r) times W₁ row-major is x_tᵀ W₁ x_r
    for j in range(len(first)):
        hidden = phi @ first[j]
        if gates is not None:
            hidden = hidden * (phi @ gates[j] >= 0)
        scores = hidden.reshape(s, s) / (np.sqrt(d) if scale == "sqrt_d" else 1.0)
        total += scores @ X @ second[j].reshape(d, -1)
    return total.mean(0) if readout == "mean" else total


@pytest.mark.parametrize(("activation", "readout", "scale", "masked"), EVERY)
@pytest.mark.parametrize("outputs", [2, 5])
def test_the_module_is_the_papers_formula(activation, readout, scale, masked, outputs):
    X, mask = tokens(), some_mask() if masked else torch.ones(6, 4, dtype=torch.bool)
    module = nn.SelfAttention(
        3, outputs, rank=2, n_gates=4, activation=activation, readout=readout, scale=scale
    ).double()
    gates = None if module.gates is None else module.gates.numpy()
    filled = torch.where(mask.unsqueeze(2), X, torch.nan)  # what a masked token holds is nobody's business
    with torch.no_grad():
        found = module(filled, mask) if masked else module(X)
    for i in range(len(X)):
        there = mask[i].numpy()
        first, second = module.first.detach().numpy(), module.second.detach().numpy()
        expected = by_hand(X[i].numpy()[there], first, second, gates, readout, scale)
        if readout == "tokens":
            assert np.allclose(found[i].numpy()[there], expected, rtol=1e-12, atol=1e-12)
            assert not found[i].numpy()[~there].any()
        else:
            assert np.allclose(found[i].numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("activation", "readout", "scale", "masked"), EVERY)
def test_contracts(activation, readout, scale, masked):
    block, X, mask = pn.SelfAttention(scale=scale), tokens(), some_mask() if masked else None
    check_block(block, X, activation, outputs=2, readout=readout, mask=mask)
    for outputs in (2, 5):
        check_operator(operator_of(block, X, activation, outputs, readout, mask))


@pytest.mark.parametrize(("activation", "readout"), BOTH)
@pytest.mark.parametrize("kept", [0, 1500], ids=["nothing is kept", "hidden values are"])
def test_contracts_where_moments_are_not_kept(activation, readout, kept, monkeypatch):
    """Moments made batch by batch, gate by gate, and the kernel in blocks; heads not through the stack."""
    for budget, size in (("KEPT", kept), ("TILE", 80), ("BLOCK", 320), ("BATCH", 4000)):
        monkeypatch.setattr(batches, budget, size)
    for outputs in (2, 5):
        check_operator(operator_of(pn.SelfAttention("sqrt_d"), tokens(), activation, outputs, readout, some_mask()))


def operator_of(block, X, activation, outputs, readout, mask):
    X = X if mask is None else X * mask.unsqueeze(2)
    vectors = torch.randn(3, X.shape[2] ** 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    (rows,) = block.on(X, outputs, readout, mask).groups
    return rows.operator(None if activation == "linear" else rows.patterns(vectors)[0], 2.0)


@pytest.mark.parametrize("readout", READOUTS)
def test_heads_through_the_stack_and_through_attention_agree(readout):
    """With few features and many tokens the stack is the shorter way; both are the same map."""
    X = tokens(20, 12, 2)
    op = operator_of(pn.SelfAttention(), X, "gated_relu", 2, readout, None)
    generator = torch.Generator().manual_seed(0)
    heads = Factors(
        torch.randn(9, op.p, generator=generator, dtype=torch.float64),
        torch.randn(9, op.q, generator=generator, dtype=torch.float64),
        torch.arange(9) % 3,
    )
    residual = torch.randn(op.output_shape, generator=generator, dtype=torch.float64)
    assert op._stack_pays(heads)
    short = op.forward_factors(heads), *op.adjoint_factors(residual, heads)
    op._stack_pays = lambda factors: False
    long = op.forward_factors(heads), *op.adjoint_factors(residual, heads)
    for a, b in zip(short, long, strict=True):
        assert torch.allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("activation", "readout"), BOTH)
def test_auto_finds_cvxpys_optimum(activation, readout):
    X = tokens(8, 3, 2)
    shape = (8, 2) if readout == "mean" else (8, 3, 2)
    Y = np.random.default_rng(5).standard_normal(shape)
    problem = pn.formulate("attention", X, Y, activation, gates=4, beta=1.0, readout=readout)
    problem = problem.with_beta(0.1 * problem.beta_max)
    found = pn.solve(problem, tol=1e-7).certificate
    expected = pn.solve(problem, "cvx", tol=1e-7).certificate
    assert found.relative_gap <= 1e-6
    assert abs(found.primal - expected.primal) <= 1e-6 * abs(expected.primal)


@pytest.mark.parametrize(("activation", "readout"), BOTH)
def test_padding_changes_nothing(activation, readout):
    """A problem on padded samples is the problem on the ragged ones, whatever the padding holds."""
    X, mask = tokens(8, 3, 2), some_mask(8, 3)
    shape = (8, 2) if readout == "mean" else (8, 3, 2)
    Y = np.random.default_rng(5).standard_normal(shape)
    rubbish = torch.full((8, 4, 2), torch.inf)
    X_more = torch.cat([X, rubbish], dim=1)
    mask_more = torch.cat([mask, torch.zeros(8, 4, dtype=torch.bool)], dim=1)
    Y_more = Y if readout == "mean" else np.concatenate([Y, np.full((8, 4, 2), 7.0)], axis=1)
    gates = torch.randn(4, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    less, more = (
        pn.formulate("attention", x, y, activation, gates, beta=0.05, readout=readout, mask=m)
        for x, y, m in ((X, Y, mask), (X_more, Y_more, mask_more))
    )
    network = pn.solve(less, tol=1e-5).network()
    some, same = pn.certify(less, network), pn.certify(more, network)
    assert np.isclose(some.primal, same.primal, rtol=1e-12)
    assert np.isclose(some.dual, same.dual, rtol=1e-9)
    assert np.isclose(less.beta_max, more.beta_max, rtol=1e-12)
    with torch.no_grad():
        wide = network(X_more, mask_more)
        assert torch.allclose(wide if readout == "mean" else wide[:, :3], network(X, mask), rtol=1e-12, atol=1e-13)


def test_the_mean_counts_only_tokens_that_are_there():
    """Ragged samples one by one, as problems of their own, have the outputs of the masked problem."""
    X, mask = tokens(), some_mask()
    op = operator_of(pn.SelfAttention(), X, "linear", 2, "mean", mask)
    stack = torch.randn(op.stack_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = op.forward(stack)
    for i in range(len(X)):
        alone = attention_operator(X[i : i + 1, mask[i]], None, 2, "mean", scale=2.0)
        assert torch.allclose(alone.forward(stack)[0], found[i], rtol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_single_token_and_a_single_feature(activation):
    for X in (tokens(7, 1, 3), tokens(7, 4, 1)):
        for readout in READOUTS:
            check_block(pn.SelfAttention(), X, activation, outputs=2, readout=readout)
            check_operator(operator_of(pn.SelfAttention(), X, activation, 2, readout, None))


def test_uncorrelated_features_split_the_program():
    """AT Cor. 3.2: with block-diagonal Gram matrices the parts of Z between the blocks stay zero."""
    X = tokens(10, 4, 4)
    X[:, :2, 2:] = 0  # some tokens hold the first two features, the others the last two
    X[:, 2:, :2] = 0
    Y = np.random.default_rng(0).standard_normal((10, 2))
    problem = pn.formulate("attention", X, Y, "linear", beta=1.0)
    problem = problem.with_beta(0.05 * problem.beta_max)
    solution = pn.solve(problem, tol=1e-9)
    stack = problem.factors(solution.network()).stack(1).view(4, 4, 4, 2)  # (a, b, e, c): G[b, e] multiplies it
    between = torch.cat([stack[:, :2, 2:].flatten(), stack[:, 2:, :2].flatten()])
    assert float(between.abs().max()) <= 1e-4 * float(stack.abs().max())


def test_one_gate_of_many_features_has_its_adjoint():
    """d = 100, c = 10: G is 10⁴ × 10³, made of 5050 pairs, in batches."""
    X = tokens(4, 5, 100)
    op = operator_of(pn.SelfAttention(), X, "gated_relu", 10, "mean", None).restrict(torch.tensor([1]))
    residual = torch.randn(op.output_shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    heads = Factors(
        torch.randn(2, op.p, generator=torch.Generator().manual_seed(1), dtype=torch.float64),
        torch.randn(2, op.q, generator=torch.Generator().manual_seed(2), dtype=torch.float64),
        torch.zeros(2, dtype=torch.long),
    )
    slope = op.adjoint(residual)
    assert slope.shape == (1, 10_000, 1_000)
    left, right = op.adjoint_factors(residual, heads)
    assert torch.allclose(heads.right @ slope[0].T, left, rtol=1e-9, atol=1e-9)
    assert torch.allclose(heads.left @ slope[0], right, rtol=1e-9, atol=1e-9)


def test_exact_ties_are_open_and_rounding_never_decides():
    X = torch.tensor([[[1.0, 1.0], [1.0, -1.0]]], dtype=torch.float64)
    (rows,) = pn.SelfAttention().on(X, 1).groups
    tie = torch.eye(2, dtype=torch.float64).reshape(1, 4)  # x_tᵀ I x_r = 0 for t ≠ r, in any order
    pattern, torn = rows.patterns(tie)
    assert pattern.tolist() == [[True] * 4]
    assert not bool(torn)
    near = torch.tensor([[0.1 + 0.2, 0.0, 0.0, 0.3]], dtype=torch.float64)  # 0.30000000000000004 − 0.3
    assert bool(rows.patterns(near)[1])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_state_dict_round_trip(activation):
    module, X = nn.SelfAttention(3, 2, activation=activation, n_gates=4, seed=1), tokens().float()
    other = nn.SelfAttention(3, 2, activation=activation, n_gates=4, seed=2)
    assert not torch.equal(other(X), module(X))
    other.load_state_dict(copy.deepcopy(module.state_dict()))
    assert torch.equal(other(X), module(X))


@pytest.mark.parametrize("readout", READOUTS)
def test_autocast(readout):
    module, X = nn.SelfAttention(3, 2, n_gates=4, readout=readout), tokens().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = module(X, some_mask())
    assert rough.dtype == torch.bfloat16
    exact = module(X, some_mask()).detach()
    assert float((rough.detach() - exact).abs().max()) <= 0.05 * float(exact.abs().max())
    rough.float().sum().backward()
    assert module.first.grad is not None
    assert bool(module.first.grad.isfinite().all())


@pytest.mark.skipif(
    shutil.which("c++") is None and shutil.which("g++") is None, reason="torch.compile needs a compiler"
)
def test_compile():
    module, X = nn.SelfAttention(3, 2, n_gates=4), tokens().float()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    assert torch.allclose(compiled(X, some_mask()), module(X, some_mask()), rtol=1e-4, atol=1e-5)


def test_training_by_any_loop_lowers_the_loss():
    module, X = nn.SelfAttention(3, 2, rank=2, n_gates=4), tokens().float()
    Y = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    optimiser = torch.optim.Adam(module.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        loss = (module(X) - Y).square().sum() / 2 + 1e-3 * module.penalty()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.ones((4, 3))}, r"X: block 'attention' needs tokens of shape \(n, s, d\), got \(4, 3\)"),
        ({"mask": np.ones((4, 2), bool)}, r"mask: for X of shape \(4, 3, 2\) it needs \(4, 3\), got \(4, 2\)"),
        ({"mask": np.zeros((4, 3), bool)}, "mask: sample 0 has no token at all"),
        ({"gates": np.ones((5, 2))}, r"gates: gate vectors need shape \(P, 4\), got \(5, 2\)"),
        ({"readout": "tokens"}, r"Y: block 'attention' on this X needs \(4, 3, 2\)"),
    ],
)
def test_bad_input_is_named(arguments, message):
    given = {"X": np.random.default_rng(0).standard_normal((4, 3, 2)), "Y": np.ones((4, 2))} | arguments
    if arguments.get("readout") == "tokens":
        given["Y"] = np.ones((4, 2, 2))
    with pytest.raises(ValueError, match=message):
        pn.formulate("attention", **given)


def test_bad_settings_and_module_input_are_named():
    with pytest.raises(ValueError, match="scale: 'sqrt' is unknown; choose None or 'sqrt_d'"):
        pn.SelfAttention(scale="sqrt")
    with pytest.raises(ValueError, match="scale: 'sqrt' is unknown"):
        nn.SelfAttention(3, 2, scale="sqrt")
    with pytest.raises(ValueError, match="readout: 'max' is unknown"):
        nn.SelfAttention(3, 2, readout="max")
    module = nn.SelfAttention(3, 2)
    with pytest.raises(ValueError, match=r"x: tokens of shape \(b, s, 3\) are needed, got \(6, 4, 2\)"):
        module(tokens(d=2))
    with pytest.raises(ValueError, match=r"mask: shape \(6, 4\) is needed, got \(6, 3\)"):
        module(tokens(), torch.ones(6, 3, dtype=torch.bool))
    problem = pn.formulate("attention", tokens(), np.ones((6, 2)), "linear")
    with pytest.raises(ValueError, match="network: scale is sqrt_d, but the problem's is None"):
        pn.certify(problem, nn.SelfAttention(3, 2, activation="linear", scale="sqrt_d"))


@pytest.mark.parametrize("activation", ["linear", "gated_relu"])
def test_neurons_alone_look_at_the_samples_asked_for_and_no_others(
    activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((12, 3, 2)), rng.standard_normal((12, 2))
    operator = pn.formulate("attention", X, Y, activation=activation, gates=3).program.operator
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(2, size, generator=generator, dtype=torch.float64) for size in (operator.p, operator.q))
    factors = Factors(left, right, torch.zeros(2, dtype=torch.long))
    whole = torch.stack([operator.forward_factors(factors.select(slice(j, j + 1))) for j in range(2)])
    seen: list[slice] = []
    batch = type(operator).batch

    def watched(self: object, rows: slice) -> torch.Tensor:
        seen.append(rows)
        return batch(self, rows)

    monkeypatch.setattr(type(operator), "batch", watched)
    torch.testing.assert_close(operator.alone(factors, slice(4, 7)), whole[:, 4:7])
    assert all(rows == slice(4, 7) for rows in seen)
