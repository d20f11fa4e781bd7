"""The reference through CVXPY."""
