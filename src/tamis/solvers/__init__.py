"""One file per algorithm: each solves the small problem on the atoms held and proves how good the answer is."""
