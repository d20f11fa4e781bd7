"""Damaged, edited, foreign and unknown folders are refused, with the file and the reason."""

from __future__ import annotations

import json
import pickle
import shutil

import numpy as np
import pytest
import safetensors.torch

import provenet as pn
from provenet import files
from provenet.io import folder as format_
from provenet.io import load, save

X = np.random.default_rng(1).normal(size=(30, 2))


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model"
    return save(pn.ProvenClassifier(beta=0.1, n_gates=8).fit(X, X[:, 0] > 0), path)


@pytest.fixture
def model(original, tmp_path):
    return shutil.copytree(original, tmp_path / "model")


FILES = ("model.json", "model.safetensors", "certificate.json")


@pytest.mark.parametrize("name", FILES)
def test_missing(model, name):
    (model / name).unlink()
    with pytest.raises(OSError, match=rf"{name}.*missing"):
        load(model)


@pytest.mark.parametrize("name", FILES)
def test_truncated_anywhere(model, name):
    whole = (model / name).read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 2):
        (model / name).write_bytes(whole[:size])
        with pytest.raises(ValueError, match=name):
            load(model)


@pytest.mark.parametrize("name", FILES)
def test_any_flipped_bit(model, name):
    whole = (model / name).read_bytes()
    for position in np.random.default_rng(0).integers(len(whole), size=40):
        edited = bytearray(whole)
        edited[position] ^= 0x10
        (model / name).write_bytes(bytes(edited))
        if name == "model.json" and _same_values(whole, bytes(edited)):
            continue  # white space between the values is free
        with pytest.raises(ValueError, match=r"model\.json|model\.safetensors|certificate\.json"):
            load(model)


def _same_values(one: bytes, other: bytes) -> bool:
    try:
        return json.loads(one) == json.loads(other)
    except ValueError:
        return False


def reseal(model, **changes):
    """Change the header and give it valid digests: only the schema can object now."""
    header = json.loads((model / "model.json").read_text())
    header.update(changes)
    for name in ("model.safetensors", "certificate.json"):
        header["files"][name] = format_._sha256((model / name).read_bytes())
    header["digest"] = format_._digest(header)
    (model / "model.json").write_text(json.dumps(header))


@pytest.mark.parametrize("version", [0, 4, "1", True, None, 1e9])
def test_unknown_versions(model, version):
    reseal(model, version=version)
    with pytest.raises(ValueError, match="format version"):
        load(model)


def test_foreign_files(model, tmp_path):
    reseal(model, format="other")
    with pytest.raises(ValueError, match="not a model of provenet"):
        load(model)
    with pytest.raises(OSError, match="no such folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(OSError, match="missing"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"problem": {}}, "block: missing"),
        ({"problem": 3}, "problem: expected dict"),
        ({"data": {"samples": ["a"]}}, "not a shape"),
        ({"estimator": {"kind": "os.system"}}, "os.system"),
        ({"estimator": {"kind": "ProvenClassifier", "settings": {"no": 1}, "fitted": {}, "labels": {}}}, "settings"),
        ({"estimator": {"kind": "ProvenClassifier", "settings": {}, "fitted": {}, "labels": {}}}, "classes_"),
        ({"run": None}, "run: expected dict"),
    ],
)
def test_headers_that_say_nonsense(model, changes, says):
    reseal(model, **changes)
    with pytest.raises(ValueError, match=says):
        load(model)


def test_a_resealed_certificate_must_still_agree_with_itself(model):
    certificate = json.loads((model / "certificate.json").read_text())
    for forged in (
        {"relative_gap": 0.0},
        {"status": "certified", "primal": 1e9},
        {"beta": 7.0},
        {"dual": None},
        {"scope": "linear"},
    ):
        (model / "certificate.json").write_text(json.dumps(certificate | forged))
        reseal(model)
        with pytest.raises(ValueError, match=r"model\.json"):
            load(model)


@pytest.mark.parametrize("change", ["drop", "shape", "nan"])
def test_tensors_that_do_not_fit(model, change):
    tensors = safetensors.torch.load_file(model / "model.safetensors")
    if change == "drop":
        del tensors["gates"]
    elif change == "shape":
        tensors["second"] = tensors["second"][1:].clone()
    else:
        tensors["first"][0, 0] = float("nan")
    safetensors.torch.save_file(tensors, model / "model.safetensors")
    reseal(model)
    with pytest.raises(ValueError, match="tensors"):
        load(model)


def test_a_pickle_is_not_opened(model):
    (model / "model.safetensors").write_bytes(pickle.dumps({"first": 1}))
    reseal(model)
    with pytest.raises(ValueError, match="not a safetensors file"):
        load(model)


def test_writing_is_atomic(model, monkeypatch):
    before = {path.name: path.read_bytes() for path in model.iterdir()}

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        files.write_atomically(model / "certificate.json", b"{}")
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before


def test_a_save_that_fails_midway_leaves_the_old_model(model, monkeypatch):
    estimator = load(model)
    write = format_.write_atomically

    def fail_at_the_end(path, content):
        if path.name == "model.json":
            raise OSError("disk full")
        write(path, content)

    monkeypatch.setattr(format_, "write_atomically", fail_at_the_end)
    with pytest.raises(OSError, match="disk full"):
        save(estimator, model)
    assert load(model).certificate_ == estimator.certificate_
    assert sorted(path.name for path in model.iterdir()) == sorted(FILES)
    monkeypatch.undo()
    save(estimator, model)
    assert load(model).certificate_ == estimator.certificate_


def test_saving_again_removes_the_old_report(model):
    (model / "report.html").write_text("of the old model")
    save(load(model), model)
    assert sorted(path.name for path in model.iterdir()) == sorted(FILES)


def test_folders_of_others_are_left_alone(model, tmp_path):
    estimator = load(model)
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter1.tex").write_text("words")
    with pytest.raises(OSError, match=r"chapter1\.tex"):
        save(estimator, other)
    (other / "model.json").write_text("{}")
    with pytest.raises(OSError, match="not provenet's"):
        save(estimator, other)
    (tmp_path / "file").write_text("words")
    with pytest.raises(OSError, match="it is a file"):
        save(estimator, tmp_path / "file")
    assert sorted(path.name for path in other.iterdir()) == ["chapter1.tex", "model.json"]


JUNK = (
    None,
    True,
    -1,
    0,
    1e300,
    "",
    "words",
    [],
    [1],
    [None],
    {},
    {"a": 1},
    {"list": 3},
    {"pairs": [1]},
    {"block": "x"},
)


def _places(value, at=()):
    """Every path into a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*at, key)
        yield from _places(part, (*at, key))


def test_no_header_ends_in_anything_but_a_model_or_a_reason(model):
    """Each value of model.json in turn replaced by junk of every kind, digests valid: no other exception, no crash."""
    original = (model / "model.json").read_text()
    reasons = []
    for place in list(_places(json.loads(original))):
        for junk in JUNK:
            header = json.loads(original)
            part = header
            for key in place[:-1]:
                part = part[key]
            part[place[-1]] = junk
            if isinstance(header.get("files"), dict):
                header["digest"] = format_._digest(header)
            (model / "model.json").write_text(json.dumps(header))
            try:
                load(model)
            except (ValueError, OSError) as error:
                reasons.append(str(error))
    assert len(reasons) > 100
    assert all(str(model) in reason for reason in reasons)
