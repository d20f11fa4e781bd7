"""Quasi-Newton on neurons: products in float32, all that is judged in float64."""
