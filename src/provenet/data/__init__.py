"""Loading and validation of data."""
