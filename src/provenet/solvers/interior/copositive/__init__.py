"""The copositive program of ReLU blocks, relaxed (CP eq. 17, 19, 20): dense, and by its dual."""
