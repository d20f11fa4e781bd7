"""
# The last block of a frozen backbone

You have a backbone that you do not want to touch, and a few thousand labelled samples. The last block is all that is
trained: exactly the two-layer problem provenet solves. Here the backbone is a small convolutional network with fixed
random filters, so that the page needs no download; any callable that returns tokens takes its place, or a name such as
`"efficientnet-lite2"`.
"""

# %%
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import provenet as pn

images, labels = load_digits(return_X_y=True)
images = images.reshape(-1, 1, 8, 8).astype("float32") / 16

torch.manual_seed(0)
backbone = torch.nn.Sequential(
    torch.nn.Conv2d(1, 24, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.AvgPool2d(2),
    torch.nn.Conv2d(24, 12, 1),
    torch.nn.ReLU(),
)

# %%
# ## Tokens, once
#
# The backbone's maps (n, 12, 4, 4) become sixteen tokens of twelve features, here eight by a PCA that is kept. They lie
# on disk, memory-mapped; an embedding that was interrupted goes on. Test samples are reduced by the same PCA (`like`).

# %%
folder = Path(tempfile.mkdtemp())
train = pn.embed(backbone, images[:400], folder / "grids", y=labels[:400], pca=8)
test = pn.embed(backbone, images[400:], folder / "grids" / "test", y=labels[400:], like=train)
print(train)

# %%
# ## Several heads, one table
#
# Each is fitted along a path of β, judged on a fifth of the samples, then trained on all of them and certified: no
# learning rate, no seeds to average over.

# %%
found = pn.heads.compare(
    train,
    heads=["linear", "mixer-linear", "poolformer-gated"],
    test=test,
    betas=[0.02, 0.005, 0.002],
    out=folder / "model",
)
print(found)

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
bars = axes.barh([row.head for row in found], [100 * row.top1 for row in found], color="#3b6fb6")
axes.bar_label(bars, fmt="%.1f", padding=4)
axes.set(xlabel="test accuracy in %", xlim=(0, 110))
plt.show()

# %%
# ## Back into torch
#
# The best head lies in a model folder, with the digest of the backbone's weights: another backbone is refused.
# Backbone, PCA and head are one module again.

# %%
whole = pn.nn.with_backbone(backbone, pn.heads.load(folder / "model"))
answers = whole(torch.as_tensor(images[-8:])).argmax(1).numpy()
print("predicted", answers, " true", labels[-8:])
assert (answers == labels[-8:]).mean() > 0.5
try:
    pn.nn.with_backbone(torch.nn.Conv2d(1, 12, 2), pn.heads.load(folder / "model"))
except ValueError as error:
    print(error)
