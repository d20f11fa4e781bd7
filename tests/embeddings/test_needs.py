"""What is said where a package that a backbone needs does not import."""

from __future__ import annotations

import sys

import pytest

from provenet.embeddings.backbones import needs


def test_a_torchvision_of_another_torch_is_named(tmp_path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    said = str(needs("text", ImportError("Could not import\n  module 'BertModel'.")))
    assert "Could not import module 'BertModel'." in said
    assert "pip uninstall torchvision" in said
    assert "provenet[text]" not in said


def test_what_is_missing_is_to_be_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("provenet.embeddings.backbones.find_spec", lambda name: None)
    assert "pip install 'provenet[text]'" in str(needs("text", ImportError("No module named 'transformers'")))
