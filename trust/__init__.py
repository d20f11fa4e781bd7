"""`make trust`: what could go wrong, tried many times; a file a figure, and a page written from what was seen."""
