"""The few hot loops: a numpy truth, a compiled twin, and the dispatch that chooses between them."""
