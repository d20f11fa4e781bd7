"""What a user sees first: quick to start, public names only, short words about long things."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import getdoc, signature

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import provenet as pn
from provenet import names
from provenet.cli.commands import COMMANDS

HEAVY = ("torch", "sklearn", "scipy", "numpy", "matplotlib")


def modules_after(code: str) -> set[str]:
    """What a fresh Python has imported after ``code``, of the heavy ones."""
    ask = f"import sys\ntry:\n    {code}\nexcept SystemExit: pass\nprint(*[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.splitlines()[-1].split())


# what is answered without work: help of all kinds, and what is wrong whatever the data are
QUICK = {
    "--version": 0,
    "--help": 0,
    **{f"{name} --help": 0 for name in COMMANDS},
    "fit gone.csv": 2,
    "fit . --colour red": 2,
    "fit . --block cnm": 2,
    "fit . --loss hinge": 2,
    "fit . --solver magic": 2,
    "fit . --gates some": 2,
    "fit . --beta -1": 2,
    "fit . --penalty 3,3": 2,
    "fit . --memory-limit much": 2,
    "fit - --betas 3": 2,
    "certify . - --block cnn": 2,
    "predict . - --out words.doc": 2,
    "bench --only everything": 2,
    "reproduce --quick=maybe": 2,
}
ANSWER = """
import os, sys
from provenet.cli.commands import app
for line in {lines!r}:
    try:
        app(line.split(), prog_name="provenet")
    except SystemExit as end:
        print("answer", end.code, *[m for m in {heavy!r} if m in sys.modules], sep=",")
"""


def test_the_command_answers_before_anything_heavy_is_imported() -> None:
    """All in one process: what one of them imports, those after it are blamed for, too."""
    code = ANSWER.format(lines=list(QUICK), heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    told = [line.split(",")[1:] for line in done.stdout.splitlines() if line.startswith("answer,")]
    assert dict(zip(QUICK, told, strict=True)) == {line: [str(code)] for line, code in QUICK.items()}


def test_every_name_leads_to_what_is_called_so() -> None:
    named = {**names.BLOCKS, **names.LOSSES, **names.METHODS}
    assert {name: each.name for name, each in named.items()} == {name: name for name in named}
    assert {name: each.__name__ for name, each in names.SAMPLERS.items()} == {name: name for name in names.SAMPLERS}
    assert all(cases for cases in names.SUITES.values())
    assert "lbfgs" in names.METHODS
    assert 3 not in names.METHODS
    assert names.METHODS.get("magic") is None
    assert repr(names.LOSSES) == "Named(squared, softmax, logistic, huber)"


def test_importing_the_package_is_quick_and_names_come_when_asked_for():
    assert not modules_after("import provenet; provenet.__version__; dir(provenet)")
    assert "torch" in modules_after("import provenet; provenet.ProvenClassifier")


def test_help_says_of_each_command_what_the_command_says_of_itself():
    for name, summary in COMMANDS.items():
        doc = getdoc(getattr(import_module(f"provenet.cli.{name}"), name)) or ""
        assert " ".join(doc.split("\n\n")[0].split()) == summary


def test_tab_completion_shows_public_names_only():
    assert set(pn.__all__) <= set(dir(pn))
    assert {name for name in dir(pn) if not hasattr(pn, name)} == set()
    rooms = {"heads", "nn", "ranks", "report", "testing", "verify"}
    assert set(dir(pn)) - set(pn.__all__) == {"__version__", *rooms}
    for room in rooms:
        found = getattr(pn, room)
        assert dir(found) == sorted(found.__all__)
    assert pn.solvers.plan.METHODS  # not listed, and there
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = pn.nonsense


RNG = np.random.default_rng(0)


def test_what_is_long_is_told_in_a_line(tmp_path):
    X = RNG.standard_normal((30, 3))
    problem = pn.formulate("mlp", X, np.abs(X[:, :1]), gates=7, beta=0.5)
    solution = pn.solve(problem, tol=1e-3)
    assert repr(problem) == "Problem('mlp' on X 30 × 3, Y 30 × 1: gated_relu, 7 gates, loss 'squared', beta 0.5)"
    assert repr(solution).startswith(f"Solution(solved by '{solution.method}': ")
    saved = pn.load(pn.save(solution, tmp_path / "model"))
    assert repr(saved).startswith("SavedModel('mlp', gated_relu, fitted on 30 × 3: ")
    assert all(len(repr(thing)) < 160 and "\n" not in repr(thing) for thing in (problem, solution, saved))


def test_solving_that_stops_short_warns():
    X = RNG.standard_normal((30, 3))
    problem = pn.formulate("mlp", X, np.abs(X[:, :1]), gates=7, beta=1e-3)
    with pytest.warns(ConvergenceWarning, match=r"solve stopped \(max_steps\) .* Raise max_steps"):
        pn.solve(problem, tol=1e-9, max_steps=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        pn.solve(problem, tol=1e-3)


def test_loaded_settings_are_the_saved_ones(tmp_path):
    X = RNG.standard_normal((20, 2))
    model = pn.ProvenRegressor(penalty=(1, 2), n_gates=4, tol=np.float64(1e-3), block=pn.MLP())
    model.fit(X, X[:, 0])
    loaded = pn.load(pn.save(model, tmp_path / "model"))
    assert loaded.get_params() == model.get_params()


def test_a_module_does_not_round_in_silence():
    module = pn.nn.MLP(3, 1)
    with pytest.warns(UserWarning, match="float64 numbers are rounded to float32"):
        module(torch.zeros(2, 3, dtype=torch.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(torch.zeros(2, 3))
        module.double()(torch.zeros(2, 3, dtype=torch.float64))
        module(torch.zeros(2, 3))  # nothing is lost


def test_a_gap_of_rounding_is_zero_and_one_beyond_is_seen():
    certificate = pn.Certificate(1.0, 1.0 + 4.6e-16, 1.0, 1.0, "linear", "exact", 1e-4)
    assert ("gap", "0") in certificate.rows()
    assert ("relative gap", "0") in certificate.rows()
    wrong = pn.Certificate(1.0, 1.1, 1.0, 1.0, "linear", "exact", 1e-4)
    assert ("gap", "-1.000e-01") in wrong.rows()


ROOMS = (pn, pn.nn, pn.heads, pn.ranks, pn.testing, pn.verify)
PUBLIC = {f"{room.__name__}.{name}": getattr(room, name) for room in ROOMS for name in room.__all__}
# of certify, in its overloads
TRAINING = ("loss", "beta", "mean", "sample_weight", "loss_settings", "sharpen", "layers")


def parameters_of(thing: object) -> list[str]:
    names = [name for name in signature(thing).parameters if name != "training"]
    return [*names, *TRAINING] if thing is pn.certify else names


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_documented(name: str) -> None:
    thing = PUBLIC[name]
    if not callable(thing) or thing is pn.Status:  # a dictionary; an enum, which no one constructs
        return
    if is_dataclass(thing) and all("meaning" in each.metadata for each in fields(thing)):
        return  # an estimator: the reference has a table of its settings, with their meanings
    sections = re.split(r"^Parameters\n-+\n", getdoc(thing) or "", flags=re.MULTILINE)[1:]
    heads = re.findall(r"^([\w*][\w*, ]*?)(?: : .*)?$", "\n".join(sections), re.MULTILINE)
    told = {each.strip(" *") for head in heads for each in head.split(",")}
    assert set(parameters_of(thing)) <= told, set(parameters_of(thing)) - told


def test_the_papers_letters_are_explained() -> None:
    for letters in ("BM ", "CP ", "AT "):
        assert f"\n{letters}" in (pn.__doc__ or "")
