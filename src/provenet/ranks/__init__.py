"""More than one process: rows by rank, neurons everywhere, sums through torch.distributed.

    with provenet.ranks.joined() as ranks:             # in every process that torchrun starts
        mine = ranks.rows(n)                           # which rows of n this one is to read; any others will do
        problem = provenet.formulate("mlp", X[mine], y[mine], …)
        solution = provenet.solve(problem, tol=1e-3)   # the same neurons and certificate in every process

Inside, data are this process's rows, all processes make the same calls, and the first one writes.
"""

from provenet.ranks.context import current, joined
from provenet.ranks.group import Ranks
from provenet.ranks.partition import Partition, shard_count
from provenet.ranks.shards import Spread, Whole

__all__ = ["Partition", "Ranks", "Spread", "Whole", "current", "joined", "shard_count"]


def __dir__() -> list[str]:
    """What is public, and nothing else."""
    return __all__
