"""Operators around another operator."""
