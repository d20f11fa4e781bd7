"""`certify` of ReLU networks: ours and ordinary torch ones, over all arrangements or over all u at once."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import provenet as pn
from provenet.certificates.everyone import row_weights
from provenet.polar.everywhere import Pull, strongest
from provenet.proofs import relu as module_of_relu
from provenet.testing.examples import examples
from provenet.variable import Factors

BETA = 0.1


def planar(n: int = 25, c: int = 5, seed: int = 0) -> tuple[Any, Any]:
    """As CP Fig. 1: Gaussian data in the plane."""
    draw = np.random.default_rng(seed)
    return draw.standard_normal((n, 2)), draw.standard_normal((n, c))


def trained(net: nn.Module, X: Any, Y: Any, beta: float = BETA, steps: int = 600, lr: float = 3e-2) -> nn.Module:
    """Gradient descent on the summed squared loss and the penalty."""
    x, y = torch.tensor(X), torch.tensor(Y)
    optimiser = torch.optim.Adam(net.parameters(), lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        objective(net, x, y, beta).backward()
        optimiser.step()
    return net


def objective(net: nn.Module, x: Tensor, y: Tensor, beta: float = BETA) -> Tensor:
    penalty = sum(weight.double().square().sum() for weight in net.parameters())
    return 0.5 * (net(x) - y).square().sum() + beta / 2 * penalty  # type: ignore[return-value]


def ordinary(d: int, m: int, c: int, bias: bool = False, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(d, m, bias=bias), nn.ReLU(), nn.Linear(m, c, bias=False)).double()


def test_ten_neurons_are_off_by_their_true_gap() -> None:
    """CP Fig. 1: gradient descent with ten neurons ends above the optimum, by an amount that is told exactly."""
    X, Y = planar()
    net = trained(ordinary(2, 10, 5), X, Y)
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", beta=BETA)
    assert len(problem.patterns) == 50
    best = pn.solve(problem, tol=1e-6).certificate
    assert best.status == "certified"
    rough = pn.certify(net, (X, Y), loss="squared", beta=BETA)
    sharp = pn.certify(net, (X, Y), loss="squared", beta=BETA, sharpen=20.0)
    truth = rough.primal - best.primal
    assert truth > 1e-3 * best.primal
    assert rough.scope == sharp.scope == "all_arrangements"
    assert rough.status == "not_certified"
    assert rough.primal == pytest.approx(float(objective(net, torch.tensor(X), torch.tensor(Y)).detach()), rel=1e-12)
    assert rough.dual <= best.primal
    assert rough.gap >= truth
    assert sharp.gap == pytest.approx(truth, rel=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_no_wide_network_beats_the_lower_bound(seed: int) -> None:
    X, Y = planar(12, 2, seed)
    lower = pn.solve(pn.formulate("mlp", X, Y, "relu", gates="all", beta=BETA), tol=1e-6).certificate.dual
    net = trained(ordinary(2, 60, 2, seed=seed), X, Y, steps=400)
    found = pn.certify(net, (X, Y), loss="squared", beta=BETA)
    assert found.primal >= lower
    assert found.dual <= lower * (1 + 1e-6)
    assert found.primal <= 1.2 * lower  # and it comes near


def test_the_optimum_of_the_plane_is_certified_whoever_judges() -> None:
    X, Y = planar(15, 3)
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", beta=BETA)
    network = pn.solve(problem, tol=1e-8).network()
    for found in (
        pn.certify(problem, network, tol=1e-6),
        pn.certify(network, (X, Y), tol=1e-6, loss="squared", beta=BETA),
    ):
        assert found.status == "certified"
        assert found.scope == "all_arrangements"


def test_improve_lowers_the_objective() -> None:
    X, Y = planar()
    net = trained(ordinary(2, 3, 5).float(), X.astype("f4"), Y.astype("f4"), steps=100)
    certificate = pn.certify(net, (X, Y), loss="squared", beta=BETA)
    better = certificate.improve()
    assert isinstance(better, nn.Sequential)
    assert [type(layer) for layer in better] == [nn.Linear, nn.ReLU, nn.Linear]
    assert better[0].weight.shape == (4, 2)  # type: ignore[union-attr]
    assert better[0].weight.dtype == torch.float32  # type: ignore[union-attr]
    again = pn.certify(better, (X, Y), loss="squared", beta=BETA)
    assert certificate.dual <= again.primal < certificate.primal
    assert net[0].weight.shape == (3, 2)


def test_nothing_better_than_the_optimum() -> None:
    X, Y = planar(12, 2)
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", beta=BETA)
    certificate = pn.certify(problem, pn.solve(problem, tol=1e-10).network())
    better = certificate.improve()
    assert better is None or pn.certify(problem, better).primal >= certificate.dual
    assert pn.certify(problem, problem.network(pn.solve(problem, max_steps=0).factors)).improve() is not None


def test_a_certificate_with_a_better_network_is_still_plain_data() -> None:
    X, Y = planar()
    certificate = pn.certify(ordinary(2, 3, 5), (X, Y), loss="squared", beta=BETA)
    assert certificate.better is not None
    told = json.loads(json.dumps(certificate.to_dict()))
    assert "better" not in told
    assert told["method"] == "gates"
    assert certificate == pn.certify(ordinary(2, 3, 5), (X, Y), loss="squared", beta=BETA)
    assert pickle.loads(pickle.dumps(certificate)) == certificate
    assert "better" not in repr(certificate)


def test_a_bias_of_the_first_layer_is_a_weight_of_a_column_of_ones() -> None:
    X, Y = planar(9, 2)
    net = ordinary(2, 4, 2, bias=True)
    ours = pn.nn.MLP.from_weights(
        torch.cat([net[0].weight, net[0].bias[:, None]], 1).detach(),  # type: ignore[arg-type, index]
        net[2].weight.detach().T,  # type: ignore[operator]
        relu=True,
        fit_intercept=True,
    )
    for module in (net, nn.Sequential(nn.Flatten(), *net), ours):
        found = pn.certify(module, (X, Y), loss="squared", beta=BETA)
        assert found.primal == pytest.approx(
            float(objective(net, torch.tensor(X), torch.tensor(Y)).detach()), rel=1e-12
        )
        assert found.scope == "all_arrangements"
    images = X.reshape(9, 2, 1)
    flat = pn.certify(nn.Sequential(nn.Flatten(), *net), (images, Y), loss="squared", beta=BETA)
    assert flat == pn.certify(net, (X, Y), loss="squared", beta=BETA)


def test_a_bias_of_the_last_layer_is_free() -> None:
    X, Y = planar(9, 2)
    net = nn.Sequential(nn.Linear(2, 4, bias=False), nn.ReLU(), nn.Linear(4, 2)).double()
    found = pn.certify(net, (X, Y), loss="squared", beta=BETA)
    free = pn.formulate("mlp", X, Y, "relu", "all", beta=BETA, fit_intercept=False)
    layers = net[0].weight.square().sum() + net[2].weight.square().sum()  # type: ignore[operator]
    value = 0.5 * (net(torch.tensor(X)) - torch.tensor(Y)).square().sum() + BETA / 2 * layers
    assert found.primal == pytest.approx(float(value.detach()), rel=1e-12)
    best = pn.solve(pn.formulate(pn.MLP(), X, Y, "relu", "all", beta=BETA, fit_intercept="free"), tol=1e-4)
    assert found.dual <= best.certificate.primal < pn.solve(free, tol=1e-4).certificate.dual
    better = found.improve()
    assert better is not None
    assert better[2].bias is not None  # type: ignore[index]
    again = pn.certify(better, (X, Y), loss="squared", beta=BETA)
    assert best.certificate.dual <= again.primal < found.primal
    net[2].bias.data.zero_()  # type: ignore[union-attr]
    without = pn.certify(net, (X, Y), loss="squared", beta=BETA)
    net[2].bias = None
    assert without == pn.certify(net, (X, Y), loss="squared", beta=BETA)


def test_a_bias_of_the_convolution_is_the_weight_of_a_one_in_every_patch() -> None:
    X, Y = planar(9, 2)
    torch.manual_seed(0)
    conv = nn.Sequential(nn.Conv1d(1, 3, 2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2, bias=False)).double()
    found = pn.certify(conv, (X[:, None], Y), loss="squared", beta=BETA)
    weights = sum(w.square().sum() for w in conv.parameters())
    value = 0.5 * (conv(torch.tensor(X[:, None])) - torch.tensor(Y)).square().sum() + BETA / 2 * weights
    assert found.primal == pytest.approx(float(value.detach()), rel=1e-12)
    block = pn.CNN(kernel=2, padding=1, pool=3, fit_intercept=True)
    best = pn.solve(pn.formulate(block, X[:, None], Y, "relu", 40, beta=BETA), tol=1e-2)
    assert found.dual <= best.certificate.primal
    better = found.improve()
    assert better is not None
    again = pn.certify(better, (X[:, None], Y), loss="squared", beta=BETA)
    assert found.dual <= again.primal < found.primal


def test_dropout_is_what_it_is_in_evaluation() -> None:
    X, Y = planar(9, 2)
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    loose = nn.Sequential(nn.Identity(), nn.Dropout(0.3), net[0], net[1], nn.Dropout(0.5), net[2]).double()
    asked = {"loss": "squared", "beta": BETA}
    found = pn.certify(loose, (X, Y), **asked)
    assert found.primal == pn.certify(net, (X, Y), **asked).primal
    better = found.improve()
    assert better is not None
    assert [type(layer) for layer in better] == [type(layer) for layer in loose]  # type: ignore[arg-type]


def test_sequences_within_sequences_are_what_is_in_them() -> None:
    X, Y = planar(9, 2)
    first, last = nn.Linear(2, 4).double(), nn.Linear(4, 2).double()
    nested = nn.Sequential(nn.Sequential(first, nn.Sequential(nn.ReLU(), nn.Dropout())), nn.Sequential(last))
    found = pn.certify(nested, (X, Y), loss="squared", beta=BETA)
    assert found == pn.certify(nn.Sequential(first, nn.ReLU(), last), (X, Y), loss="squared", beta=BETA)
    better = found.improve()
    assert better is not None
    assert str(better[0][1]) == str(nested[0][1])  # type: ignore[index]
    assert pn.certify(better, (X, Y), loss="squared", beta=BETA).primal < found.primal


@pytest.mark.parametrize("bias", [False, True])
def test_two_linear_layers_are_judged_among_linear_networks(bias: bool) -> None:
    X, Y = planar(9, 2)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3, bias=bias), nn.Dropout(), nn.Linear(3, 2, bias=False)).double().eval()
    problem = pn.formulate(pn.MLP(fit_intercept=bias), X, Y, "linear", beta=BETA)
    best = pn.solve(problem, tol=1e-8)
    found = pn.certify(net, (X, Y), loss="squared", beta=BETA)
    assert found.scope == "linear"
    weights = sum(w.square().sum() for w in net.parameters())
    value = 0.5 * (net(torch.tensor(X)) - torch.tensor(Y)).square().sum() + BETA / 2 * weights
    assert found.primal == pytest.approx(float(value.detach()), rel=1e-12)
    assert found.dual <= best.certificate.primal < found.primal


class Own(nn.Module):
    """As people write them: layers by name, functions between them."""

    def __init__(self, between=torch.relu) -> None:
        super().__init__()
        self.body = nn.ModuleDict({"conv": nn.Conv1d(1, 2, 2), "pool": nn.AvgPool1d(1)})
        self.fc1, self.fc2, self.drop = nn.Linear(2, 4), nn.Linear(4, 2), nn.Dropout()
        self.head, self.between = nn.Linear(2, 2), between
        self.convolves = False

    def forward(self, x):
        if self.convolves:
            return self.head(self.body["pool"](self.between(self.body["conv"](x))).flatten(1))
        return self.fc2(self.drop(self.between(self.fc1(x))))


def test_the_two_layers_of_a_module_of_ones_own_are_named() -> None:
    X, Y = planar(9, 2)
    net, asked = Own().double(), {"loss": "squared", "beta": BETA}
    plain = nn.Sequential(net.fc1, nn.ReLU(), net.fc2)
    found = pn.certify(net, (X, Y), layers=("fc1", "fc2"), **asked)
    assert found == pn.certify(plain, (X, Y), **asked)
    better = found.improve()
    assert isinstance(better, Own)
    assert pn.certify(better, (X, Y), layers=("fc1", "fc2"), **asked).primal < found.primal
    net.convolves = True
    images = (X[:, None], Y)
    pooled = nn.Sequential(net.body["conv"], nn.ReLU(), net.body["pool"], nn.Flatten(), net.head)
    assert pn.certify(net, images, layers=("body.conv", "body.pool", "head"), **asked) == pn.certify(
        pooled, images, **asked
    )


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        (("fc1",), "the first and the last layer"),
        ("fc1", "the first and the last layer"),
        (("fc1", "fc9"), "has no 'fc9'; its modules are"),
        (("fc1", "drop"), "and then a Linear are needed, got Linear and Dropout"),
        (("fc1", "drop", "fc2"), "goes average pooling"),
        (("fc1", "head"), "computes something else"),  # another network than the one that is called
    ],
)
def test_layers_that_are_not_those_of_the_module(layers: tuple, said: str) -> None:
    net = Own().double()
    net.head = nn.Linear(4, 2).double()
    with pytest.raises(ValueError, match=said):
        pn.certify(net, planar(9, 2), loss="squared", beta=BETA, layers=layers)


def test_another_function_between_the_layers_is_found_out() -> None:
    with pytest.raises(ValueError, match="computes something else"):
        pn.certify(Own(torch.tanh).double(), planar(9, 2), loss="squared", beta=BETA, layers=("fc1", "fc2"))


def test_two_linear_layers_of_a_module_of_ones_own() -> None:
    X, Y = planar(9, 2)
    net, asked = Own(nn.Identity()).double(), {"loss": "squared", "beta": BETA}
    plain = nn.Sequential(net.fc1, net.fc2)
    found = pn.certify(net, (X, Y), layers=("fc1", "fc2"), **asked)
    assert found.scope == "linear"
    assert found == pn.certify(plain, (X, Y), **asked)
    assert found == pn.certify(net, (X, Y), layers=("fc1", "fc2"), scope="linear", **asked)
    net.convolves = True
    images = (X[:, None], Y)
    pooled = nn.Sequential(net.body["conv"], net.body["pool"], nn.Flatten(), net.head)
    found = pn.certify(net, images, layers=("body.conv", "body.pool", "head"), **asked)
    assert found.scope == "linear"
    assert found == pn.certify(pooled, images, **asked)
    weights = sum(w.square().sum() for w in pooled.parameters()) - net.head.bias.square().sum()
    value = 0.5 * (net(torch.tensor(images[0])) - torch.tensor(Y)).square().sum() + BETA / 2 * weights
    assert found.primal == pytest.approx(float(value.detach()), rel=1e-12)
    best = pn.solve(
        pn.formulate(pn.CNN(kernel=2, fit_intercept=True), *images, "linear", beta=BETA, fit_intercept="free")
    )
    assert found.dual <= best.certificate.primal < found.primal


def test_a_relu_network_is_not_taken_for_a_linear_one() -> None:
    with pytest.raises(ValueError, match="computes something else"):
        pn.certify(Own().double(), planar(9, 2), loss="squared", beta=BETA, layers=("fc1", "fc2"), scope="linear")


CONVOLUTIONS = [
    (nn.Conv2d(2, 3, 2, bias=False), nn.AdaptiveAvgPool2d(1), (2, 3, 4), 1),
    (nn.Conv2d(1, 3, (1, 2), stride=(1, 2), bias=False), nn.AvgPool2d(2), (1, 4, 4), 2),
    (nn.Conv2d(1, 2, 3, padding="same", dilation=1, bias=False), nn.AdaptiveAvgPool2d((2, 1)), (1, 3, 3), 2),
    (nn.Conv1d(2, 3, 2, padding=1, bias=False), nn.AvgPool1d(3, stride=1), (2, 4), 3),
    (nn.Conv1d(1, 3, 2, dilation=2, bias=False), None, (1, 5), 3),
]


@pytest.mark.parametrize(("conv", "pool", "shape", "cells"), CONVOLUTIONS)
def test_convolutional_networks(conv: Any, pool: Any, shape: tuple[int, ...], cells: int) -> None:
    draw = np.random.default_rng(0)
    X, Y = draw.standard_normal((5, *shape)), draw.standard_normal((5, 2))
    last = nn.Linear(conv.out_channels * cells, 2, bias=False)
    net = nn.Sequential(conv, nn.ReLU(), *([] if pool is None else [pool]), nn.Flatten(), last).double()
    found = pn.certify(net, (X, Y), loss="squared", beta=BETA)
    assert found.primal == pytest.approx(float(objective(net, torch.tensor(X), torch.tensor(Y)).detach()), rel=1e-12)
    assert found.scope == "all_arrangements"
    assert found.dual <= found.primal
    better: Any = found.improve()
    assert better is not None
    assert better[0].out_channels == conv.out_channels + 1
    again = pn.certify(better, (X, Y), loss="squared", beta=BETA)
    assert found.dual <= again.primal < found.primal


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2, bias=False)), (2,)),
        (nn.Sequential(nn.Conv1d(1, 3, 2, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(6, 2, bias=False)), (1, 3)),
    ],
)
def test_the_better_network_may_be_zero(net: nn.Module, shape: tuple[int, ...]) -> None:
    """Where β is beyond β_max: a network that runs, and nothing random is drawn for it."""
    draw = np.random.default_rng(0)
    X, Y = draw.standard_normal((5, *shape)), draw.standard_normal((5, 2))
    state = torch.get_rng_state()
    better = pn.certify(net, (X, Y), loss="squared", beta=1e3, sharpen=5.0).improve()
    assert torch.equal(torch.get_rng_state(), state)
    assert better is not None
    assert not bool(better(torch.tensor(X).float()).any())
    assert pn.certify(better, (X, Y), loss="squared", beta=1e3).status == "certified"


@pytest.mark.parametrize(("n", "d", "c"), [(40, 4, 2), (60, 9, 3), (60, 9, 1)])
def test_bounds_over_all_u_hold(n: int, d: int, c: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the method, no pull found by chance is stronger, and the dual is below every primal."""
    monkeypatch.setattr(module_of_relu, "_MOST", 10)
    draw = np.random.default_rng(1)
    X, Y = draw.standard_normal((n, d)), draw.standard_normal((n, c))
    net = trained(ordinary(d, 15, c), X, Y, beta=2.0, steps=200)
    found = pn.certify(net, (X, Y), loss="squared", beta=2.0)
    assert (found.scope, found.bound) == ("all_arrangements", "deterministic")
    assert "over all u" in found.method
    assert 0 <= found.dual < found.primal
    theta = net(torch.tensor(X)).detach() - torch.tensor(Y)
    u = torch.from_numpy(draw.standard_normal((20_000, d)))
    pulls = Pull(torch.tensor(X), theta).strength(u / u.norm(dim=1, keepdim=True))
    assert found.polar_max >= float(pulls.max())
    wide = trained(ordinary(d, 80, c, seed=3), X, Y, beta=2.0, steps=300)
    assert float(objective(wide, torch.tensor(X), torch.tensor(Y), 2.0)) >= found.dual


def test_all_u_agree_with_all_arrangements(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(2)
    X, Y = draw.standard_normal((20, 3)), draw.standard_normal((20, 2))
    net = ordinary(3, 6, 2)
    exact = pn.certify(net, (X, Y), loss="squared", beta=BETA)
    monkeypatch.setattr(module_of_relu, "_MOST", 1)
    found = pn.certify(net, (X, Y), loss="squared", beta=BETA)
    assert (exact.bound, exact.method) == ("exact", "gates")
    assert found.method == "branch and bound over all u"
    assert exact.polar_max * (1 - 1e-9) <= found.polar_max <= 1.004 * exact.polar_max


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_low_rank_ties_and_zeros(rank: int) -> None:
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn(30, rank, generator=draw, dtype=torch.float64) @ torch.randn(rank, 6, dtype=torch.float64)
    rows[3], rows[4], rows[5] = 0, rows[6], -2 * rows[7]
    weights = torch.randn(30, 2, generator=draw, dtype=torch.float64)
    weights[8] = 0
    found = strongest(Pull(rows, weights), torch.zeros(0, 6, dtype=torch.float64))
    assert found.lower == pytest.approx(float(Pull(rows, weights).strength(found.u[None])[0]), rel=1e-9)
    assert found.lower <= found.upper <= 1.001 * found.lower * (1 + 1e-9)
    nothing = strongest(Pull(rows, 0 * weights), torch.zeros(0, 6, dtype=torch.float64))
    assert (nothing.lower, nothing.upper) == (0.0, 0.0)


TABLES = ("mlp", "cnn", "poolformer", "fnet", "attention", "mixer", "fno", "token_map")  # where Φ is a table of rows


@pytest.mark.parametrize(
    "example", [e for e in examples() if e.block.name in TABLES[:-1] and e.mask(2) is None], ids=str
)
def test_weights_of_rows(example: Any) -> None:
    """Σ_r D_r Φ_r M_rᵀ is A*Θ of the pattern D."""
    X = example.samples(5)
    for readout in example.readouts:
        shape = (*(X.shape[:2] if readout == "tokens" else X.shape[:1]), example.outputs)
        Y = np.random.default_rng(0).standard_normal(shape)
        problem = pn.formulate(example.block, X, Y, "relu", gates=3, readout=readout)
        theta = torch.from_numpy(Y)
        rows = problem.block.rows(problem.X)  # type: ignore[attr-defined]
        M = row_weights(problem, theta)
        scale = problem.units.y / problem.units.z
        wanted = problem.program.operator.adjoint(theta) * scale
        for pattern, G in zip(problem.patterns, wanted, strict=True):
            assert torch.allclose((rows * pattern[:, None]).T @ M, G, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("example", list(examples()), ids=str)
def test_our_own_relu_modules(example: Any) -> None:
    X, mask = example.samples(6), example.mask(6)
    Y = np.random.default_rng(0).standard_normal((6, example.outputs))
    problem = pn.formulate(example.block, X, Y, "relu", gates=4, beta=BETA, mask=mask)
    op = problem.program.operator
    draw = torch.Generator().manual_seed(0)
    left, right = (0.1 * torch.randn(3, size, generator=draw, dtype=torch.float64) for size in (op.p, op.q))
    module: Any = problem.network(Factors(left, right, torch.arange(3)))
    found = pn.certify(module, (X, Y) if mask is None else (X, Y, mask), loss="squared", beta=BETA)
    assert found.scope == ("all_arrangements" if example.block.name in TABLES and mask is None else "fixed_gates")
    inputs = (problem.X,) if mask is None else (problem.X, problem.mask)
    wanted = problem.loss.value(module(*inputs)) + BETA * module.penalty()
    assert found.primal == pytest.approx(float(wanted.detach()), rel=1e-12)
    assert found.dual <= found.primal


def test_labels_means_weights_and_loaders() -> None:
    X, _ = planar(12)
    label = np.arange(12) % 3
    net = ordinary(2, 6, 3)
    weight = np.arange(12) % 2 + 0.0
    problem = pn.formulate("mlp", X, label, "relu", gates="all", loss="softmax", beta=BETA, sample_weight=weight)
    ours = pn.nn.MLP.from_weights(net[0].weight.detach(), net[2].weight.detach().T, relu=True)  # type: ignore
    found = pn.certify(net, (X, label), loss="softmax", beta=BETA, sample_weight=weight)
    assert found == pn.certify(problem, ours)
    batches = [(torch.tensor(X[i : i + 5]), torch.tensor(label[i : i + 5])) for i in range(0, 12, 5)]
    mean = pn.certify(net, batches, loss="softmax", beta=BETA / 12, mean=True)
    assert mean.primal == pytest.approx(pn.certify(net, (X, label), loss="softmax", beta=BETA).primal)


def test_wrong_input_says_what_to_do() -> None:
    X, Y = planar(6, 2)
    net = ordinary(2, 3, 2)

    def refused(match: str, module: nn.Module, data: Any = (X, Y), **more: Any) -> None:
        with pytest.raises(ValueError, match=match):
            pn.certify(module, data, **({"loss": "squared", "beta": BETA} | more))

    refused(r"nn.Sequential\(Linear, Tanh, Linear\) is no two-layer", nn.Sequential(net[0], nn.Tanh(), net[2]))
    refused("is no two-layer", nn.Sequential(*net, nn.Softmax(1)))
    refused("is no two-layer", nn.Sequential())
    conv = nn.Conv1d(1, 2, 2, bias=False).double()
    last = nn.Linear(2, 2, bias=False).double()
    refused("MaxPool1d", nn.Sequential(conv, nn.ReLU(), nn.MaxPool1d(1), nn.Flatten(), last), (X[:, None], Y))
    refused("X: Conv1d needs samples of 2 dimensions", nn.Sequential(conv, nn.ReLU(), nn.Flatten(), last))
    wrong = nn.Linear(5, 2, bias=False).double()
    refused("takes 5", nn.Sequential(conv, nn.ReLU(), nn.Flatten(), wrong), (X[:, None], Y))
    grouped = nn.Conv1d(2, 2, 1, groups=2, bias=False).double()
    refused("groups=1", nn.Sequential(grouped, nn.ReLU(), nn.Flatten(), last), (X[:, :, None], Y))
    refused("X: on samples of shape", net, (X[:, :1], Y))
    refused("Y: the module has 2 outputs", net, (X, Y[:, :1]))
    with torch.no_grad():
        net[0].weight[0, 0] = float("nan")  # type: ignore[index]
    refused("module: an output: it contains NaN", net)


def test_a_module_that_computes_something_else_is_refused() -> None:
    class Shifted(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 1

    class Ours(pn.nn.MLP):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 1

    X, Y = planar(6, 2)
    for module in (Shifted(*ordinary(2, 3, 2)), Ours(2, 2, activation="relu")):
        with pytest.raises(ValueError, match="outputs differ"):
            pn.certify(module, (X, Y), loss="squared", beta=BETA)
    problem = pn.formulate("mlp", X, Y, "relu", gates=5, beta=BETA)
    with pytest.raises(ValueError, match="outputs differ"):
        pn.certify(problem, Ours(2, 2, activation="relu"))


def test_samples_and_targets_may_come_one_after_the_other() -> None:
    X, Y = torch.randn(12, 2, dtype=torch.float64), torch.randn(12, 3, dtype=torch.float64)
    net = nn.Sequential(nn.Linear(2, 4, bias=False), nn.ReLU(), nn.Linear(4, 3, bias=False)).double()
    pair = pn.certify(net, (X, Y), loss="squared", beta=0.1)
    for args, more in (((X, Y), {}), ((X.numpy(), Y.numpy()), {}), ((X, Y), {"tol": 1e-3})):
        found = pn.certify(net, *args, **more, loss="squared", beta=0.1)
        assert (found.primal, found.dual) == (pair.primal, pair.dual)
        assert found.tol == more.get("tol", 1e-4)
    problem = pn.formulate("mlp", X, Y, "relu", gates="all", beta=0.1)
    network = pn.solve(problem, tol=1e-5).network()
    assert pn.certify(problem, network, tol=1e-3).tol == 1e-3
    with pytest.raises(ValueError, match="Y: the problem has its own data"):
        pn.certify(problem, network, Y)


def test_a_tolerance_is_given_by_name() -> None:
    X, Y = np.eye(3), np.ones((3, 1))
    problem = pn.formulate("mlp", X, Y, gates=2, beta=0.1)
    network: Any = problem.network(pn.variable.Factors.empty(3, 1))
    for what, data in ((problem, network), (network, (X, Y))):
        with pytest.raises(TypeError, match=r"tol: it is given by name, tol=0\.001"):
            pn.certify(what, data, 1e-3)
    with pytest.raises(TypeError, match="positional arguments"):
        pn.certify(network, X, Y, 1e-3, loss="squared", beta=0.1)


def test_a_sharpened_certificate_says_whose_gradient_bounds_it() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 2)), rng.standard_normal((20, 2))
    net = pn.nn.MLP.from_weights(torch.from_numpy(rng.standard_normal((3, 2))), torch.ones(3, 2).double(), relu=True)
    rough = pn.certify(net, (X, Y), loss="squared", beta=0.2)
    sharp = pn.certify(net, (X, Y), loss="squared", beta=0.2, sharpen=5.0)
    assert rough.dual < sharp.dual <= sharp.primal == rough.primal
    assert (rough.dual_of, sharp.dual_of) == ("network", "solved network")
    assert sharp.polar_max == rough.polar_max  # still said of the network itself
    assert "by the solved network's gradient" in str(sharp)
    assert "at the network itself" in str(sharp)
    assert sharp.sharpened(rough) is sharp
