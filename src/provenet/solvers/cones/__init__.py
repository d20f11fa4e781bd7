"""Methods on neurons that stay in the cones of ReLU's arrangements."""
