"""
# A network you already have: could it have been better?

Any two-layer ReLU network in torch will do, however it was trained. The question is put to the data it was trained
on: is there a network of the same kind, of any width, with a lower objective?
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch

import provenet as pn

draw = np.random.default_rng(0)
X, Y = draw.standard_normal((25, 2)), draw.standard_normal((25, 5))
beta = 0.1


def trained(width: int, seed: int) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    net = torch.nn.Sequential(
        torch.nn.Linear(2, width, bias=False), torch.nn.ReLU(), torch.nn.Linear(width, 5, bias=False)
    ).double()
    optimiser = torch.optim.Adam(net.parameters(), lr=0.03)
    for _ in range(500):
        optimiser.zero_grad()
        decay = sum(weight.square().sum() for weight in net.parameters())
        (0.5 * (net(torch.tensor(X)) - torch.tensor(Y)).square().sum() + beta / 2 * decay).backward()
        optimiser.step()
    return net


# %%
# ## Four networks, one floor
#
# `sharpen` spends up to so many seconds on a better bound. The bound speaks of ReLU networks of every width, so the
# highest of the four floors holds for all of them.

# %%
networks = {(width, seed): trained(width, seed) for width in (3, 10) for seed in (0, 1)}
asked = {"loss": "squared", "beta": beta, "sharpen": 3.0}
judged = {key: pn.certify(net, X, Y, **asked) for key, net in networks.items()}
floor = max(certificate.dual for certificate in judged.values())
for (width, seed), certificate in judged.items():
    above = certificate.primal / floor - 1
    objective = f"objective {certificate.primal:.2f}, at most {above:.1%} above the best"
    print(f"{width:2d} units, seed {seed}: {objective}")
print(f"no ReLU network is below {floor:.2f}  (scope: {certificate.scope})")

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
names = [f"{width} units,\nseed {seed}" for width, seed in judged]
axes.bar(names, [certificate.primal for certificate in judged.values()], color="#d9822b", width=0.5)
axes.axhline(floor, color="#3b6fb6", label="no ReLU network of any width is below this")
axes.set(ylabel="training objective", ylim=(0.8 * floor, None))
axes.legend(frameon=False)
plt.show()

# %%
# ## And a better one

# %%
worst = max(judged.values(), key=lambda certificate: certificate.primal)
better = worst.improve()
print(f"from {worst.primal:.2f} to {pn.certify(better, X, Y, loss='squared', beta=beta).primal:.2f}")
