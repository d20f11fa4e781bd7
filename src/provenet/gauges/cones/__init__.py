"""Gauges of the cones of ReLU's arrangements."""
