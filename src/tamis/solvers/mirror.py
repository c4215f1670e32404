from tamis.solvers.reduced import solve_reduced as solve_mirror
