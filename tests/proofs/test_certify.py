"""`certify` of modules on data in batches: the same certificate as that of the problem, and nothing that is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from module_help import Batches, N, cases, mlp, posed
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import provenet as pn
from provenet import batches
from provenet.blocks import block_of
from provenet.certificates import Certificate
from provenet.polar import bounds
from provenet.testing.examples import Example
from provenet.variable import Factors


def assert_same(found: Certificate, wanted: Certificate) -> None:
    for name in ("primal", "dual", "polar_max", "beta", "gap", "relative_gap"):
        size = abs(wanted.primal) if name == "gap" else 0.0
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-10, abs=1e-10 * size), name
    assert (found.scope, found.bound, found.tol) == (wanted.scope, wanted.bound, wanted.tol)
    assert found.conditions == wanted.conditions


@pytest.mark.parametrize(("example", "activation", "readout"), list(cases()))
def test_every_block_in_batches_of_any_size(example: Example, activation: str, readout: str) -> None:
    problem, module, data = posed(example, activation, readout)
    assert block_of(module) == example.block
    wanted = pn.certify(problem, module)
    for given in (data, Batches(data, 1), Batches(data, 4), Batches(data, N, shuffle=False)):
        assert_same(pn.certify(module, given, loss="squared", beta=problem.beta), wanted)


def test_arrays_go_through_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, module, data = mlp()
    wanted = pn.certify(problem, module)
    monkeypatch.setattr(batches, "PASS", 320)
    seen = []
    operator = pn.MLP.operator
    monkeypatch.setattr(pn.MLP, "operator", lambda *args: seen.append(len(args[1])) or operator(*args))
    assert_same(pn.certify(module, data, loss="squared", beta=problem.beta), wanted)
    assert len(seen) > 4
    assert max(seen) <= 4


@pytest.mark.parametrize(
    ("loss", "settings"), [("squared", {}), ("huber", {"delta": 0.4}), ("logistic", {}), ("softmax", {})]
)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_loss_and_weights(loss: str, settings: dict[str, Any], weighted: bool) -> None:
    _, module, (X, Y) = mlp()
    if loss == "logistic":
        Y = (Y > 0).astype(float)
    if loss == "softmax":
        Y = np.eye(2)[(Y[:, 0] > 0).astype(int)]
    weight = np.arange(N) % 3 + 0.0 if weighted else None
    problem = pn.formulate(
        "mlp", X, Y, gates=module.gates, loss=loss, beta=0.3, sample_weight=weight, loss_settings=settings
    )
    found = pn.certify(module, (X, Y), loss=loss, beta=0.3, sample_weight=weight, loss_settings=settings)
    assert_same(found, pn.certify(problem, module))


def test_labels_know_the_classes_of_the_module() -> None:
    """No batch of one sample shows all classes, and one class never comes."""
    X = np.random.default_rng(0).standard_normal((N, 3))
    label = np.arange(N) % 3
    module = pn.nn.MLP(3, 4, n_gates=5)
    problem = pn.formulate("mlp", X, np.eye(4)[label], gates=module.gates, loss="softmax", beta=0.1)
    for given in ((X, label), DataLoader(TensorDataset(torch.tensor(X), torch.tensor(label)), batch_size=1)):
        assert_same(pn.certify(module, given, loss="softmax", beta=0.1), pn.certify(problem, module))
    with pytest.raises(ValueError, match=r"batch 0: Y: class index 4 is beyond the 4 outputs"):
        pn.certify(module, (X, label + 2), loss="softmax", beta=0.1)


def test_a_mean_loss_has_beta_over_n() -> None:
    problem, module, data = mlp()
    found = pn.certify(module, data, loss="squared", beta=problem.beta / N, mean=True)
    assert_same(found, pn.certify(problem, module))
    with pytest.raises(ValueError, match="mean"):
        pn.certify(module, data, loss="squared", beta=0.1, mean=True, sample_weight=np.ones(N))


def test_the_optimum_is_certified_and_only_there() -> None:
    problem, _, data = mlp()
    module: Any = pn.solve(problem, tol=1e-8).network()
    assert pn.certify(module, data, tol=1e-6, loss="squared", beta=problem.beta).status == "certified"
    assert pn.certify(module, data, tol=1e-6, loss="squared", beta=0.5 * problem.beta).status == "not_certified"
    with torch.no_grad():
        module.first *= 1.01
    assert pn.certify(module, data, tol=1e-6, loss="squared", beta=problem.beta).status == "not_certified"


def test_float32_wrapped_and_in_training_mode() -> None:
    _, module, data = mlp()
    module = module.to(torch.float32)
    wanted = pn.certify(pn.formulate("mlp", *data, gates=module.gates, beta=0.3), module)
    wrapped = nn.DataParallel(torch.compile(module, backend="eager"))
    for one in (module.train(), wrapped):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_same(pn.certify(one, data, loss="squared", beta=0.3), wanted)
    assert module.training
    assert module.first.dtype == torch.float32


def test_gates_that_agree_or_never_open_are_harmless() -> None:
    draw = np.random.default_rng(0)
    X, Y = draw.random((N, 3)) + 0.1, draw.standard_normal((N, 2))
    own = torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gates = torch.cat([own, 2 * own, -torch.ones(2, 3)])
    weights = (torch.from_numpy(draw.standard_normal((len(gates), size))) for size in (3, 2))
    module = pn.nn.MLP.from_weights(*weights, gates)
    problem = pn.formulate("mlp", X, Y, gates=gates, beta=0.3)
    assert problem.program.operator.n_gates <= 4
    assert not problem.patterns.any(1).all()
    assert_same(pn.certify(module, Batches((X, Y), 3), loss="squared", beta=0.3), pn.certify(problem, module))


def test_padding_may_differ_from_pass_to_pass() -> None:
    """A loader that shuffles and fills up each batch to its longest sample."""
    module = pn.nn.SelfAttention(2, 3, n_gates=4)
    draw = np.random.default_rng(0)
    tokens = [draw.standard_normal((1 + i % 4, 2)) for i in range(N)]
    Y = draw.standard_normal((N, 3))

    def filled(rows: Any) -> tuple[Tensor, Tensor, Tensor]:
        parts = [torch.from_numpy(tokens[i]) for i in rows]
        X = nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=float("nan"))
        return X, torch.from_numpy(Y[list(rows)]), ~X[:, :, 0].isnan()

    X, _, mask = filled(range(N))
    problem = pn.formulate("attention", X, Y, gates=module.gates, beta=0.3, mask=mask)
    order = torch.Generator().manual_seed(0)
    loader = DataLoader(range(N), batch_size=3, shuffle=True, collate_fn=filled, generator=order)
    assert_same(pn.certify(module, loader, loss="squared", beta=0.3), pn.certify(problem, module))


class Augmented(Batches):
    """Samples that change from pass to pass."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for X, *rest in super().__iter__():
            yield X + 1e-9 * self.passes, *rest


class Growing(Batches):
    """More samples in every pass."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for _ in range(self.passes + 1):
            yield self.arrays
        self.passes += 1


@pytest.mark.parametrize("loader", [Augmented, Growing])
def test_samples_that_change_are_refused(loader: type[Batches]) -> None:
    _, module, data = mlp()
    with pytest.raises(ValueError, match="data: a later pass brings samples that the first did not"):
        pn.certify(module, loader(data, 4), loss="squared", beta=0.3)


def test_samples_that_vanish_are_refused() -> None:
    _, module, data = mlp()

    class Shrinking(Batches):
        def __iter__(self) -> Iterator[tuple[Any, ...]]:
            yield from list(super().__iter__())[: 3 - self.passes]

    with pytest.raises(ValueError, match="the first pass had 8 samples, a later one 4"):
        pn.certify(module, Shrinking(data, 4, shuffle=False), loss="squared", beta=0.3)


def test_undecided_gates_are_refused() -> None:
    gates = torch.tensor([[1.0, 1.0, 1.0]])
    X = np.array([[1.0, 0.0, 0.0], [0.1, 0.2, -0.3]])  # zero or not by the order of summation
    module = pn.nn.MLP.from_weights(torch.ones(1, 3), torch.ones(1, 1), gates)
    with pytest.raises(ValueError, match="rounding decides"):
        pn.certify(module, (X, np.ones((2, 1))), loss="squared", beta=0.1)


def test_wrong_use_says_what_to_do() -> None:
    problem, module, (X, Y) = mlp()

    def refused(match: str, what: Any = module, data: Any = (X, Y), **settings: Any) -> None:
        with pytest.raises(ValueError, match=match):
            pn.certify(what, data, **({"loss": "squared", "beta": 0.1} | settings))

    refused("module: a Problem or one of provenet.nn's modules is needed, got Linear", nn.Linear(3, 2))
    refused("got str", "mlp")
    refused("the problem has its own", problem, module)
    refused("the problem has its own", problem, module, loss=None, beta=None, sample_weight=np.ones(N))
    refused("loss, beta: to certify a module both must be given", loss=None)
    refused("beta: it must be a positive", beta=-1.0)
    refused("loss: 'mse' is unknown", loss="mse")
    refused("loss_settings", loss_settings={"delta": 1.0})
    refused("sharpen: seconds from zero on are needed, got -1", sharpen=-1)
    refused("data: it holds no sample", data=[])
    refused("more than one pass is needed", data=iter([(X, Y)]))
    refused("data: arrays .* are needed, got ndarray", data=X)
    refused("data: arrays .* are needed, got int", data=3)
    refused("batch 0: a batch is", data=[X])
    refused("batch 1: a batch is .* got 1 parts", data=[(X, Y), (X,)])
    refused("same number of samples, got X 11, Y 10", data=(X, Y[:-1]))
    refused("data: it holds no sample", data=(X[:0], Y[:0]))
    refused("batch 0: X: it is empty", data=[(X[:0], Y[:0])])
    refused("batch 1: X: it contains NaN", data=[(X, Y), (X * np.nan, Y)])
    refused("batch 0: Y: it contains infinity", data=(X, Y + np.inf))
    refused(r"X: on samples of shape \(2,\) .* have 2 and 2 .* the module's have 3 and 2", data=(X[:, :2], Y))
    refused(r"Y: the module has 2 outputs, the targets 1", data=(X, Y[:, :1]))
    refused("mask: block 'mlp'", data=(X, Y, np.ones((N, 3))))
    refused("sample_weight: it goes with arrays", data=[(X, Y)], sample_weight=np.ones(N))
    refused("sample_weight: 11 samples need shape", sample_weight=np.ones(3))
    refused("range of float64", data=(X * 1e300, Y * 1e300))
    with pytest.raises(TypeError, match="sharpne: certify has no such settings; it has tol, loss, beta, "):
        pn.certify(module, (X, Y), loss="squared", beta=0.1, sharpne=1.0)  # type: ignore[call-overload]


def test_weights_that_are_no_numbers() -> None:
    _, module, data = mlp()
    module.first.data[0, 0] = float("nan")
    with pytest.raises(ValueError, match="module: an output: it contains NaN"):
        pn.certify(module, data, loss="squared", beta=0.1)


def test_tokens_want_as_many_in_every_batch() -> None:
    module = pn.nn.FNet(2, 1, n_gates=3, readout="tokens")
    X, Y = torch.randn(4, 3, 2), torch.randn(4, 3, 1)
    batches = [(X, Y), (X[:, :2], Y[:, :2])]
    with pytest.raises(ValueError, match="every batch needs the same number of tokens"):
        pn.certify(module, batches, loss="squared", beta=0.1)
    with pytest.raises(ValueError, match=r"Y: the module's outputs are \(4, 3, 1\), the targets \(4, 2, 1\)"):
        pn.certify(module, (X, Y[:, :2]), loss="squared", beta=0.1)


def test_a_module_of_another_forward_is_refused() -> None:
    class Shifted(pn.nn.MLP):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) + 1

    _, _, data = mlp()
    with pytest.raises(ValueError, match="not a network of this block"):
        pn.certify(Shifted(3, 2), data, loss="squared", beta=0.1)


def test_variables_too_large_to_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """The polar by products with vectors, each a pass over the batches: looser, never below."""
    problem, module, data = posed(Example("attention", (3, 4), outputs=3), "gated_relu", "mean")
    exact = pn.certify(problem, module)
    monkeypatch.setattr(bounds, "LARGE_BYTES", 0)
    by_gate = pn.certify(module, Batches(data, 4), loss="squared", beta=problem.beta)
    assert_same(by_gate, exact)
    monkeypatch.setattr(bounds, "_exact", lambda operator, final: False)
    probable = pn.certify(module, Batches(data, 4), loss="squared", beta=problem.beta)
    assert probable.bound == "probabilistic"
    assert exact.polar_max * (1 - 1e-12) <= probable.polar_max <= exact.polar_max * (1 + 1e-5)
    assert probable.dual <= exact.dual * (1 + 1e-12)


def test_the_zero_network() -> None:
    """Optimal from beta_max on; but without neurons it has no gates to be certified among."""
    problem, _, data = mlp("linear")
    beta = 1.01 * problem.beta_max
    problem = problem.with_beta(beta)
    zero = problem.network(Factors.empty(3, 2))
    found = pn.certify(zero, data, loss="squared", beta=beta)
    assert_same(found, pn.certify(problem, zero))
    assert found.status == "certified"
    gated, _, _ = mlp()
    with pytest.raises(ValueError, match="no neuron"):
        pn.certify(gated.network(Factors.empty(3, 2)), data, loss="squared", beta=beta)


def test_two_passes_over_the_data_do() -> None:
    """One for predictions and gates, one for A*Θ and what rounding hides in it."""
    passes = 0

    class Loader:
        def __iter__(self) -> Any:
            nonlocal passes
            passes += 1
            yield from ((X[:20], Y[:20]), (X[20:], Y[20:]))

    draw = torch.Generator().manual_seed(0)
    X, Y = torch.randn(50, 4, generator=draw), torch.randn(50, 2, generator=draw)
    pn.certify(pn.nn.MLP(4, 2, n_gates=5), Loader(), loss="squared", beta=1.0)
    assert passes == 2
