"""
# The last block of a frozen backbone

You have a backbone that you do not want to touch, and a few thousand labelled samples. The last block is all that is
trained: exactly the two-layer problem provenet solves. Here the backbone is a small convolutional network with fixed
random filters, so that the page needs no download; any callable that returns tokens takes its place.
"""

# %%
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import provenet as pn

images, labels = load_digits(return_X_y=True)
images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16

torch.manual_seed(0)
backbone = torch.nn.Sequential(
    torch.nn.Conv2d(1, 24, 3, padding=1),
    torch.nn.ReLU(),
    torch.nn.AvgPool2d(2),
    torch.nn.Conv2d(24, 12, 1),
    torch.nn.ReLU(),
).requires_grad_(False)

grid = backbone(images)  # (n, 12, 4, 4)
tokens = grid.flatten(2).transpose(1, 2).contiguous()  # (n, 16, 12): sixteen places, twelve features
X_train, X_test, y_train, y_test = train_test_split(tokens.numpy(), labels, train_size=400, random_state=0)
print(X_train.shape)

# %%
# ## Several heads, one call each
#
# A head is a block. All of them take tokens (n, s, d); one fit each, no learning rate, no seeds to average over.

# %%
heads = {
    "mean of the tokens, linear": ("mlp", X_train.mean(1), X_test.mean(1), "linear"),
    "linear attention": ("attention", X_train, X_test, "linear"),
    "linear mixer": ("mixer", X_train, X_test, "linear"),
    "gated-ReLU on local averages": ("poolformer", X_train, X_test, "gated_relu"),
}
fitted = {}
for name, (block, train, test, activation) in heads.items():
    head = pn.ProvenClassifier(
        block=block, activation=activation, n_gates=20, beta="0.005max", gates="gaussian", tol=1e-2
    )
    head.fit(train, y_train)
    fitted[name] = head
    print(
        f"{name:28s} test accuracy {head.score(test, y_test):.3f}   proven gap {head.certificate_.relative_gap:.0e}   "
        f"{sum(p.numel() for p in head.network_.parameters()):5d} parameters"
    )

# %%
# ## Back into torch
#
# `network_` is a plain module, so backbone and head compose like any two layers, and go to ONNX or another machine as
# one.


# %%
class Whole(torch.nn.Module):
    def __init__(self, backbone, head):
        super().__init__()
        self.backbone, self.head = backbone, head

    def forward(self, image):
        return self.head(self.backbone(image).flatten(2).transpose(1, 2))


best = fitted["linear mixer"]
whole = Whole(backbone, best.network_.float()).eval()
with torch.no_grad():
    answers = whole(images[:8]).argmax(1).numpy()
print("predicted", answers, " true", labels[:8])
assert np.mean(answers == labels[:8]) > 0.5
