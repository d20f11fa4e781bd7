"""Gauges with a prox."""
