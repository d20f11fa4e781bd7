"""
# Your own training loop, judged and finished

Keep your loop. The blocks are ordinary torch modules; train one as you always do, then ask what the result is worth,
and let provenet go the rest of the way from where you stopped.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

import provenet as pn

images, labels = load_digits(return_X_y=True)
angle = np.arange(8) * np.pi / 8
place = np.broadcast_to(np.stack([np.cos(angle), np.sin(angle)], 1), (len(images), 8, 2))
# a token is a row of the image, and which row it is
tokens = np.concatenate([images.reshape(-1, 8, 8) / 16, place], axis=2)
X, y = torch.tensor(tokens[:600], dtype=torch.float32), torch.tensor(labels[:600])

# %%
# ## The usual loop
#
# A linear self-attention head with eight heads, AdamW, thirty epochs. The weight decay is a term of the loss,
# `penalty()`, because AdamW's own decay minimises something else.

# %%
beta = 20.0  # of the sum of the losses; a loop of means divides by the number of samples
torch.manual_seed(0)
head = pn.nn.SelfAttention(d=X.shape[2], c=10, rank=8, activation="linear")
loader = DataLoader(TensorDataset(X, y), batch_size=100, shuffle=True)
optimiser = torch.optim.AdamW(head.parameters(), lr=0.01, weight_decay=0)
for _ in range(30):
    for x, label in loader:
        loss = torch.nn.functional.cross_entropy(head(x), label) + beta / len(X) * head.penalty()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

# %%
# ## What is it worth?
#
# `certify` takes the module as it is. `primal` is the objective your loop reached, `dual` a floor that no linear
# attention head, with any number of heads, can be below.

# %%
before = pn.certify(head, (X, y), loss="softmax", beta=beta)
print(before)

# %%
# "Not certified" is no verdict on the loop. The gap is what can be *proven* from these weights alone, and where a
# training stops short of a stationary point that is little: the floor is still far too low. A better floor says more.
#
# ## The rest of the way
#
# `bm`, the Burer–Monteiro method with escape, starts at the weights you have. Where it meets a saddle it adds
# neurons; it stops when the gap is proven.

# %%
problem = pn.formulate("attention", X, y, activation="linear", loss="softmax", beta=beta)
solution = pn.solve(problem, "bm", tol=1e-3, start=head)
after = solution.certificate
print(after)
print(f"\nthe loop had stopped {before.primal / after.dual - 1:.1%} above the best, at most")

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
bars = axes.barh(["proven floor", "after bm", "after AdamW"], [after.dual, after.primal, before.primal])
for bar, color in zip(bars, ("#3b6fb6", "#222222", "#d9822b"), strict=True):
    bar.set_color(color)
axes.bar_label(bars, fmt="%.1f", padding=4)
axes.set(xlabel="training objective", xlim=(0, 1.15 * before.primal))
plt.show()
