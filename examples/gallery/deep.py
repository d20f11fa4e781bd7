"""
# Deep networks, a convex stage at a time

A deep network is no convex problem. But it can be built of stages that are: train a two-layer block, drop its last
layer, feed its features to the next block. Each stage has a certificate of its own, on its own inputs; the stack as a
whole claims none. (Sahiner and others, ICLR 2024, §4.2.)
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import provenet as pn

images, labels = load_digits(return_X_y=True)
images = (images / 16).reshape(-1, 1, 8, 8).astype("float32")
split = train_test_split(images, labels, train_size=700, stratify=labels, random_state=0)
X_train, X_test, y_train, y_test = split

# %%
layers = [pn.Layer("cnn", n_gates=8, beta="1e-3mean") for _ in range(2)]
model = pn.LayerwiseClassifier(layers=layers, early_stopping=False, tol=1e-2)
model.fit(X_train, y_train)
print(model.stages_)
print(f"test accuracy {model.score(X_test, y_test):.3f}")

# %%
# ## What the stages add

# %%
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
stages = range(1, len(model.stages_) + 1)
training = [100 * stage.score for stage in model.stages_]
validation = [100 * stage.validation for stage in model.stages_]
axes.plot(stages, training, "o-", color="#222222", label="training")
axes.plot(stages, validation, "o-", color="#3b6fb6", label="validation")
axes.set(xlabel="stage", ylabel="accuracy in %", xticks=list(stages))
axes.legend(frameon=False)
plt.show()

# %%
# `model.network_` is one torch module, `pn.nn.Layers`; `pn.save` keeps it with every stage's certificate. Long runs
# write checkpoints (`checkpoint="folder"`) and go on from them, bit for bit. On the command line: `provenet layerwise
# images/ --out model --resume`. Larger experiments are on [their page](../results/layerwise.md).
