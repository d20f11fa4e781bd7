"""
# What a certificate is, in pictures

You train a network, the loss stops falling, and you stop. Was that the best there is, or did the training get stuck?
Nobody can tell from the curve alone. A certificate can, and this page shows how, for readers who have never met
duality.

## Training only ever gives an upper bound

Three spiral arms, a gated-ReLU network of twelve units, and Adam from six seeds:
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch

import provenet as pn
from provenet.data.demo import spiral

X, label = spiral(150, noise=0.02)
problem = pn.formulate(pn.MLP(fit_intercept=True), X, label, gates=60, loss="softmax", beta=0.05)
solution = pn.solve(problem, tol=1e-6)
gates = solution.network().gates.clone()


def train(seed: int, steps: int = 400) -> list[float]:
    """The training objective of a network with twelve units of the same kind, step by step."""
    torch.manual_seed(seed)
    chosen = torch.randint(len(gates), (12,))
    rows = torch.cat([torch.tensor(X), torch.ones(len(X), 1, dtype=torch.float64)], 1)
    opened = (rows @ gates[chosen].T >= 0).double()
    first = torch.randn(12, rows.shape[1], dtype=torch.float64).mul_(0.5).requires_grad_()
    second = torch.randn(12, 3, dtype=torch.float64).mul_(0.5).requires_grad_()
    optimiser = torch.optim.Adam([first, second], lr=0.05)
    curve = []
    for _ in range(steps):
        outputs = (opened * (rows @ first.T)) @ second
        loss = torch.nn.functional.cross_entropy(outputs, torch.tensor(label), reduction="sum")
        objective = loss + 0.05 / 2 * (first.square().sum() + second.square().sum())
        optimiser.zero_grad()
        objective.backward()
        optimiser.step()
        curve.append(float(objective.detach()))
    return curve


curves = [train(seed) for seed in range(6)]
ends = [curve[-1] for curve in curves]

figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
for seed, curve in enumerate(curves):
    axes.plot(curve, linewidth=1.2, label=f"seed {seed}: {curve[-1]:.1f}")
axes.set(xlabel="steps of Adam", ylabel="training objective", yscale="log")
axes.set_title("Six trainings, six ends. Which is good?")
axes.legend(frameon=False, ncols=2)
plt.show()
print("the six ends:", *(f"{end:.1f}" for end in ends))

# %%
# Each curve says: *a network with this objective exists*. None says how much better the next seed would be. What is
# missing is a number from below.
#
# ## A bound from below
#
# Here is the idea, on a curve one can see. A convex function lies above each of its tangents. So one tangent,
# wherever it is taken, proves how low the curve can go at the very most; the better the point, the higher the floor.

# %%
line = np.linspace(-2.2, 2.2, 400)


def bowl(x):
    return np.log(np.cosh(1.5 * x)) + 0.25 * (x - 0.8) ** 2


def slope(x):
    return 1.5 * np.tanh(1.5 * x) + 0.5 * (x - 0.8)


figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
for axes, at in zip(panels, (0.75, 0.3), strict=True):
    # on the stretch that matters, −1 to 1
    floor = min(bowl(at) + slope(at) * (end - at) for end in (-1, 1))
    axes.plot(line, bowl(line), color="#222222")
    axes.plot(line, bowl(at) + slope(at) * (line - at), color="#3b6fb6", linestyle="--")
    axes.axhline(floor, color="#3b6fb6")
    axes.plot(at, bowl(at), "o", color="#d9822b")
    axes.fill_between([-1, 1], floor, bowl(at), color="#d9822b", alpha=0.15)
    axes.text(-0.95, floor - 0.25, f"all of −1 to 1 is above −{-floor:.2f}", color="#3b6fb6")
    axes.set_title(f"here {bowl(at):.2f}; at most {bowl(at) - floor:.2f} from the best")
    axes.set_ylim(-2.1, 2.4)
plt.show()

# %%
# The shaded height is a **gap**: where we are, minus what is proven to be out of reach. Close to the lowest point the
# tangent is nearly flat and the gap nearly nothing. The bound is true wherever the tangent is taken, so a bad method
# makes a large gap, never a wrong one.
#
# ## Networks are bowls, if you write them differently
#
# A network's loss as a function of its weights is no bowl: it has valleys without number, and a tangent proves
# nothing. But a two-layer network with weight decay has a second description, one matrix a gate in place of weights,
# in which it *is* a convex problem with the same best objective. provenet works there, and so it has tangents.

# %%
records = solution.history
seconds = [record.seconds for record in records]
objective = [record.primal for record in records]
floor = np.maximum.accumulate([record.dual for record in records])

figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
axes.plot(seconds, objective, color="#222222", label="objective of provenet's network")
axes.plot(seconds, floor, color="#3b6fb6", label="proven: no such network is below this")
axes.fill_between(seconds, floor, objective, color="#3b6fb6", alpha=0.12)
for end in ends:
    axes.axhline(end, color="#d9822b", linewidth=0.8)
axes.axhline(ends[0], color="#d9822b", linewidth=0.8, label="where the six seeds of Adam ended")
axes.set(xlabel="seconds", ylim=(0, max(ends) * 1.15))
axes.set_title("From above and from below, until they meet")
axes.legend(frameon=False)
plt.show()
print(solution.certificate)

# %%
# Read it so: the network in hand has the objective `primal`; no network of this kind, however wide and however it was
# trained, is below `dual`. What is between them is the gap. [The other lines](../words.md#certificates) say of which
# networks it speaks, and how it was bounded.
#
# Now the six ends can be judged, too. They are networks with gates from the same set, so the same floor holds for
# them. How much of the distance is the training's, and how much that of having twelve units, it does not say:

# %%
for seed, end in enumerate(ends):
    print(f"seed {seed}: {end:6.1f}, {end / solution.certificate.dual - 1:5.0%} above the floor")

# %%
# ## What it does not say
#
# The floor is for networks of one kind (its **scope**: here, these sixty gates), one loss, one β, and the data that
# were trained on. It says nothing of other data: a proven optimum can overfit like any other. β is what stands
# against that; [choosing](../choosing.md) tells how to find it.
#
# And it need not be believed: `provenet certify` computes it again from the saved weights, and `provenet.verify` once
# more, in code that shares nothing with the solver.
