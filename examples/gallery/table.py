"""
# A table, from the first fit to the report

A table of measurements, a column to predict, and the questions one has: how good is it on data it has not seen, which
β, and is this really the best network of its kind?
"""

# %%
# ## The data
#
# Wine: 178 bottles, 13 measurements on scales from 0.1 to 1,500, three cultivars. Weight decay is only fair if
# columns have comparable scales, so the estimators standardise tables: it is part of the problem that is proven, and of
# the network that comes back. Gaps and categories are scikit-learn's to fill and encode, in a pipeline; on the command
# line, `--impute` and `--one-hot` do so.

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

import provenet as pn

X, y = load_wine(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

# %%
# ## One fit
#
# No learning rate, no number of epochs. Gates are the units of a ReLU network that is trained for a moment; β, the
# weight decay, is chosen by short trainings. `beta="0.02max"` would be a share of β_max, from which on it is zero.

# %%
model = pn.ProvenClassifier().fit(X_train, y_train)
print(f"test accuracy {model.score(X_test, y_test):.3f}, {len(model.network_.first)} neurons")
print(model.certificate_)

# %%
# ## Which β?
#
# `ProvenClassifierCV` follows β from large to small on every fold, for linear and for ReLU networks, and refits the
# best. What each was worth is in `candidates_`.

# %%
chosen = pn.ProvenClassifierCV(cv=3).fit(X_train, y_train)
print(f"{chosen.activation_}, beta {chosen.beta_:.3g}, test accuracy {chosen.score(X_test, y_test):.3f}")

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
for tried, color in zip(chosen.candidates_, ("#222222", "#3b6fb6"), strict=True):
    axes.semilogx(tried.betas, tried.scores.mean(axis=0), "o-", color=color, label=tried.activation)
axes.axvline(chosen.beta_, color="#d9822b", linestyle="--", label="chosen")
axes.set(xlabel="β", ylabel="accuracy, mean of three folds", title="Validation along the path")
axes.legend(frameon=False)
plt.show()

# %%
# ## Keep it
#
# `pn.save` writes safetensors and JSON, nothing pickled. On the command line the same is
#
#     provenet fit wine.csv --target cultivar --holdout 0.3 --out wine
#     provenet certify wine wine.csv
#     provenet predict wine new.csv --out predictions.csv
#
# and `wine/report.html` is a page with the certificate in words, the confusion matrix and how the gap closed.
