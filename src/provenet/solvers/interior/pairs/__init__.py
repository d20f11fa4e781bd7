"""The interior point on pairs (arrangement, sign) of ReLU programs with one output."""
