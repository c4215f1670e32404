"""One file per idea of which atoms exist, how to search them all, and what they are called."""
