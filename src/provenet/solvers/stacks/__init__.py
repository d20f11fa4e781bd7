"""Methods on stacks (P, p, q): the convex program itself."""
