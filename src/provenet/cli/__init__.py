"""The command line: one file a sub-command."""

from provenet.cli.app import app, main

__all__ = ["app", "main"]
