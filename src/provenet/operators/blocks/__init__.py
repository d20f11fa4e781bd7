"""The operators of blocks, a file each."""
