"""What can be seen in one process that has joined itself: cutting, adding, refusing, snapshots."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import provenet as pn
from provenet import deadline, ranks
from provenet.losses import LOSSES, Free, Shiftable, constant
from provenet.losses.balance import is_balanced
from provenet.losses.ranked import RankedLoss
from provenet.polar import bounds
from provenet.ranks import Partition, Ranks, Spread, shard_count
from provenet.ranks.context import by_first, each_alone, sent_by_first
from provenet.ranks.tree import climbed, finished, nodes
from provenet.solvers import snapshot
from provenet.solvers.loop import Refused
from provenet.testing import check_loss, check_operator

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 5))
LABELS = (X @ RNG.standard_normal((5, 3))).argmax(1)


@pytest.mark.parametrize("n", [1, 2, 7, 8, 100, 60_000, 10**6, 10**9])
def test_every_row_is_in_one_shard_and_every_shard_in_one_process(n: int) -> None:
    shards = shard_count(n)
    assert shards & (shards - 1) == 0
    assert 1 <= shards <= n
    for world in {1, min(3, shards), min(8, shards), shards if shards < 100 else 100}:
        cut = Partition(n, world)
        rows = [cut.rows_of(rank) for rank in range(world)]
        assert rows[0].start == 0
        assert rows[-1].stop == n
        assert all(one.stop == other.start for one, other in itertools.pairwise(rows))
        assert all(row.stop > row.start for row in rows)
        last = [cut.slices_of(rank)[-1].stop for rank in range(world)]
        assert last == [row.stop - row.start for row in rows]


def test_more_processes_than_shards_are_told_how_many_there_can_be() -> None:
    with pytest.raises(ValueError, match="3 rows are cut into 2 shards, too few for 4 processes; start 2 at most"):
        Partition(3, 4)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 5, 7, 8])
def test_a_sum_is_the_same_to_the_last_bit_whoever_adds_which_part(world: int) -> None:
    parts = torch.randn(8, 1000, generator=torch.Generator().manual_seed(0))
    whole = climbed(parts.clone(), 0)[0]
    leaves = [range(8 * rank // world, 8 * (rank + 1) // world) for rank in range(world)]
    known = {}
    for own in leaves:
        sums = climbed(parts[own.start : own.stop].clone(), own.start)
        known |= dict(zip(nodes(own), sums, strict=True))
    assert torch.equal(finished(known, (0, 8)), whole)
    torch.testing.assert_close(whole, parts.sum(0))


def test_fewer_shards_can_be_asked_for() -> None:
    cut = Spread(100, Ranks(), 8)
    assert (cut.count, sum(cut.sizes), len(set(cut.sizes))) == (8, 100, 2)
    assert Spread(5, Ranks(), 8).count == 4
    with pytest.raises(ValueError, match="too few for 16 processes; start 8 at most"):
        Partition(10**6, 16, 8)


def test_chosen_samples_are_found_in_their_shards() -> None:
    cut, rows = Spread(20, Ranks()), torch.arange(20) * 10
    index = torch.tensor([0, 3, 4, 19])
    parts = [rows[places] for places in cut.places(index)]
    assert len(parts) == cut.count
    assert torch.equal(cut.everywhere(parts, index), rows[index])
    assert torch.equal(cut.everywhere([part > 35 for part in parts], index), rows[index] > 35)


def test_what_goes_wrong_in_one_process_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> None:
        raise FileExistsError("there is one")

    assert each_alone(lambda: 3) == by_first(lambda: 3) == 3
    with ranks.joined() as group:
        assert (sent_by_first(lambda: b"abc"), sent_by_first(lambda: None)) == (b"abc", None)
        assert each_alone(ranks.current) is by_first(ranks.current) is None  # nobody may call the others in there
        for do in (each_alone, by_first, sent_by_first):
            with pytest.raises(FileExistsError, match="there is one"):
                do(wrong)
        monkeypatch.setattr(Ranks, "told", lambda self, value: [None, ["AnotherMap", "it", "ValueError"][1:][::-1]])
        with pytest.raises(ValueError, match="it"):
            each_alone(lambda: 3)
        assert group.first_sends(b"abc") == b"abc"


def test_a_module_by_itself_is_not_judged_on_some_rows() -> None:
    with ranks.joined():
        problem = pn.formulate("mlp", X, LABELS, loss="softmax", gates=3, beta=1.0)
        module = pn.solve(problem, "lbfgs", tol=0.1).network()
        with pytest.raises(ValueError, match=r"outside of provenet.ranks.joined\(\); on those of all pose"):
            pn.certify(module, X, LABELS, loss="softmax", beta=1.0)
        assert pn.certify(problem, module, tol=0.1).status == "certified"


def test_a_polar_by_size_alone_is_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no time for A*Θ: if three others have as many rows, ‖A‖ and ‖Θ‖ are twice as large."""
    program, theta = program_of(gates=4), torch.from_numpy(RNG.standard_normal((20, 2)))
    alone = bounds._by_size(program.operator, program.gauge, theta).upper
    assert bool((alone >= program.polar(theta).upper).all())
    add = Spread.add
    monkeypatch.setattr(Spread, "add", lambda self, parts: 4 * add(self, parts))
    torch.testing.assert_close(bounds._by_size(program.operator, program.gauge, theta).upper, 4 * alone)


def program_of(**settings: Any) -> Any:
    with ranks.joined():
        return pn.formulate("mlp", X[:20], X[:20, :2], **settings).program


def test_a_spread_operator_keeps_the_contract() -> None:
    check_operator(program_of(gates=4).operator)


@pytest.mark.parametrize("name", LOSSES)
def test_a_spread_loss_keeps_the_contract(name: str) -> None:
    target = torch.eye(3, dtype=torch.float64)[torch.from_numpy(LABELS[:16])]
    weight = torch.linspace(0.5, 2, 16, dtype=torch.float64)
    check_loss(RankedLoss.of(LOSSES[name](target, weight), Spread(16, Ranks())))


@pytest.mark.parametrize("name", LOSSES)
def test_a_spread_loss_with_a_free_intercept_is_that_of_one_piece(name: str) -> None:
    target = torch.eye(3, dtype=torch.float64)[torch.from_numpy(LABELS[:32])]
    weight = torch.linspace(0.5, 2, 32, dtype=torch.float64)
    whole = LOSSES[name](target, weight)
    spread = RankedLoss.of(whole, Spread(32, Ranks()))
    assert isinstance(spread, Shiftable)
    generator = torch.Generator().manual_seed(1)
    for size in (0.0, 1e-3, 1.0, 30.0, 1e4):
        prediction = size * torch.randn(32, 3, generator=generator, dtype=torch.float64)
        one, other = Free(whole), Free(spread)
        assert float(other.value(prediction)) <= float(one.value(prediction)) * (1 + 1e-12) + 1e-12
        theta = other.dual_at(prediction)
        assert is_balanced(theta)  # by one process that has all of it, too
        if size < 1e3:  # beyond, losses are steps, and there are many good b
            torch.testing.assert_close(theta, one.dual_at(prediction), rtol=1e-9, atol=1e-9)
        b = other.at_best(prediction)
        assert torch.equal(other.at_best(prediction.clone()), b)  # a best b stays it, to the last bit


def test_a_free_intercept_over_shards_keeps_the_contract() -> None:
    spread = RankedLoss.of(LOSSES["softmax"](torch.eye(2, dtype=torch.float64).repeat(4, 1)), Spread(8, Ranks()))
    assert isinstance(spread, Shiftable)
    check_loss(Free(spread))


def test_soft_labels_over_shards_are_balanced() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.rand(32, 4, generator=generator, dtype=torch.float64)
    target /= target.sum(1, keepdim=True)
    whole = LOSSES["softmax"](target, None)
    prediction = torch.randn(32, 4, generator=generator, dtype=torch.float64)
    one, other = (Free(loss) for loss in (whole, RankedLoss.of(whole, Spread(32, Ranks()))))  # type: ignore[arg-type]
    theta = other.dual_at(prediction)
    assert is_balanced(theta)
    torch.testing.assert_close(other.conjugate(theta), one.conjugate(one.dual_at(prediction)))


def test_a_constant_over_shards_is_looked_for_no_longer_than_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where softmax is all steps the search is long; whatever it ends at is a constant that a network may have."""
    generator = torch.Generator().manual_seed(0)
    target = torch.eye(6, dtype=torch.float64)[torch.randint(0, 6, (100,), generator=generator)]
    prediction = 1e5 * torch.randn(100, 6, generator=generator, dtype=torch.float64)
    steps, real = [], constant._At.step
    monkeypatch.setattr(constant._At, "step", lambda at, reach: (steps.append(1), real(at, reach))[1])
    best, short = (Free(RankedLoss.of(LOSSES["softmax"](target), Spread(100, Ranks()))) for _ in range(2))  # type: ignore[arg-type]
    least, long = float(best.value(prediction)), len(steps)
    steps.clear()
    with deadline.within(0.0):
        b = short.intercept(prediction)
        assert len(steps) <= constant._AT_LEAST < long
        theta = short.dual_at(prediction)
    assert least <= float(short.value_at(prediction, b)) * (1 + 1e-12)
    assert is_balanced(theta)
    assert float(-short.conjugate(theta * short.dual_scale(theta, 1.0))) <= least * (1 + 1e-12)


def test_a_class_without_samples_has_a_constant_far_away() -> None:
    target = torch.eye(3, dtype=torch.float64)[torch.from_numpy(LABELS[:32] % 2)]  # nobody is of the third
    whole = LOSSES["softmax"](target, None)
    one, other = (Free(loss) for loss in (whole, RankedLoss.of(whole, Spread(32, Ranks()))))  # type: ignore[arg-type]
    prediction = torch.randn(32, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(other.value(prediction), one.value(prediction))
    assert is_balanced(other.dual_at(prediction))


def test_gradients_of_a_conjugate_go_through_the_sum() -> None:
    loss = LOSSES["squared"](torch.randn(16, 2, dtype=torch.float64))
    dual = torch.randn(16, 2, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(loss.conjugate(dual), dual)
    (spread,) = torch.autograd.grad(RankedLoss.of(loss, Spread(16, Ranks())).conjugate(dual), dual)
    torch.testing.assert_close(spread, slope)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"activation": "relu"}, "activation: 'relu' has cones"),
        ({"gates": "grow"}, "gates: 'grow' looks at all rows"),
    ],
)
def test_what_needs_all_rows_in_one_process_says_so(settings: dict[str, Any], reason: str) -> None:
    with ranks.joined(), pytest.raises(ValueError, match=reason):
        pn.formulate("mlp", X, X[:, :1], **settings)


def test_other_methods_refuse_rows_that_are_spread() -> None:
    with ranks.joined():
        problem = pn.formulate("mlp", X, X[:, :1], gates=5)
        for name in sorted(set(pn.solvers.METHODS) - {"lbfgs"}):
            with pytest.raises(Refused, match="spread over processes"):
                pn.solve(problem, method=name)
        with pytest.raises(ValueError, match="betas: it needs all rows in one process"):
            pn.ProvenRegressorCV(betas=2, n_gates=3).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"posed inside of provenet.ranks.joined"):
        pn.solve(problem)


def posed(beta: float = 2.0, fit_intercept: bool | str = True) -> pn.Problem:
    return pn.formulate("mlp", X, LABELS, loss="softmax", gates=20, beta=beta, fit_intercept=fit_intercept)


def weights(solution: pn.Solution) -> torch.Tensor:
    return torch.cat([value.flatten() for value in solution.network().state_dict().values()])


class Gone(Exception):
    """As if the process had been killed."""


def gone_after(step: int) -> Any:
    def callback(record: Any) -> None:
        if record.step >= step:
            raise Gone

    return callback


def interrupted(folder: Path, problem: pn.Problem) -> None:
    with pytest.raises(Gone), pn.snapshots(folder, every=5):
        pn.solve(problem, "lbfgs", tol=1e-5, callback=gone_after(10))
    assert (folder / "snapshot.json").exists()


@pytest.mark.parametrize("fit_intercept", [True, "free"])
def test_without_other_processes_a_run_goes_on_too(tmp_path: Path, fit_intercept: bool | str) -> None:
    problem = posed(fit_intercept=fit_intercept)
    whole = pn.solve(problem, "lbfgs", tol=1e-5)
    interrupted(tmp_path, problem)
    with pn.snapshots(tmp_path, every=5):
        resumed = pn.solve(problem, "lbfgs", tol=1e-5)
    assert resumed.steps == whole.steps
    assert torch.equal(weights(resumed), weights(whole))
    assert [record.primal for record in resumed.history] == [record.primal for record in whole.history]
    assert not tmp_path.exists()  # nothing is left


@pytest.mark.parametrize("step", [20, 60])
def test_what_is_known_of_gates_that_wait_is_kept(step: int, tmp_path: Path) -> None:
    """Which gates are met at a look decides which neurons join: with enough gates some wait (`certificates.screen`)."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((150, 5))
    problem = pn.formulate("mlp", X, np.eye(3)[rng.integers(0, 3, 150)], gates=300, loss="softmax")
    problem = problem.with_beta(0.3 * problem.beta_max)
    whole = pn.solve(problem, "lbfgs", tol=1e-8, max_steps=120)
    with pytest.raises(Gone), pn.snapshots(tmp_path, every=3):
        pn.solve(problem, "lbfgs", tol=1e-8, max_steps=120, callback=gone_after(step))
    with pn.snapshots(tmp_path, every=3):
        resumed = pn.solve(problem, "lbfgs", tol=1e-8, max_steps=120)
    assert torch.equal(weights(resumed), weights(whole))
    assert [record.dual for record in resumed.history] == [record.dual for record in whole.history]


def test_a_full_disk_is_told_of_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshot, "write_atomically", full)
    with pytest.warns(UserWarning, match=r"No space left on device.*the run goes on"), pn.snapshots(tmp_path, every=5):
        solution = pn.solve(posed(), "lbfgs", tol=1e-3)
    assert solution.certificate.status == "certified"


def test_snapshots_of_another_problem_or_damaged_ones_are_refused(tmp_path: Path) -> None:
    interrupted(tmp_path, posed())
    with pytest.raises(ValueError, match="another problem or method"), pn.snapshots(tmp_path):
        pn.solve(posed(1.0), "lbfgs")
    (state,) = tmp_path.glob("state-*.safetensors")
    content = bytearray(state.read_bytes())
    content[-1] ^= 1
    state.write_bytes(content)
    with pytest.raises(ValueError, match=r"its digest is another.*delete"), pn.snapshots(tmp_path):
        pn.solve(posed(), "lbfgs")
    (tmp_path / "snapshot.json").write_text(json.dumps({"format": "something"}))
    with pytest.raises(ValueError, match="no snapshot that this provenet can go on from"), pn.snapshots(tmp_path):
        pn.solve(posed(), "lbfgs")


def test_a_guess_of_other_predictions_is_not_held_on_to() -> None:
    loss = LOSSES["softmax"](torch.eye(2, dtype=torch.float64).repeat(4, 1))
    spread = RankedLoss.of(loss, Spread(8, Ranks()))
    for guess in ([1e6, -1e6], [1e9, 1e9], [-3e4, 0.0], [32.958405644766245, -10.879880537737389]):
        found = spread.shift(torch.zeros(8, 2, dtype=torch.float64), torch.tensor(guess, dtype=torch.float64))
        slope = spread.gradient(torch.zeros(8, 2, dtype=torch.float64) + found).sum(0)
        assert float(slope.abs().max()) <= 1e-6, guess
