"""A run against peers, one command: ``make bench``."""
