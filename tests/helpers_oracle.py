"""The truth for rule models, by brute force: every conjunction listed, every norm summed, the optimum from a cone solver.

Nothing here is fast and nothing is shared with the package. An `Instance` is one optimisation problem

    min over F, beta of  1/2 Omega(F)^2 + C * sum_i s_i l(y_i, o_i + (Phi F)_i + beta)

over all free conjunctions of its literals; `generic_optimum` solves it completely with cvxpy and Clarabel.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

MARGINS = ("logistic", "squared_hinge", "hinge")
REGRESSIONS = ("squared", "huber", "poisson")
LOSSES = (*MARGINS, *REGRESSIONS, "multinomial")
Atom = tuple[int, ...]
TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


@dataclass(frozen=True)
class Instance:
    """One problem: literals as a boolean matrix, y as +-1, class index or number, and what defines the lattice."""

    truth: np.ndarray
    y: np.ndarray
    loss: str = "logistic"
    C: float = 1.0
    rho: float = 1.5
    prices: np.ndarray | None = None
    max_length: int | None = None
    min_support: float = 1.0
    weight: np.ndarray | None = None
    row_weight: np.ndarray | None = None
    offset: np.ndarray | None = None
    silent: tuple[int, ...] = ()
    sign: np.ndarray | None = None
    delta: float = 1.0

    @property
    def size(self) -> int:
        return self.truth.shape[1]

    @property
    def columns(self) -> int:
        return int(self.y.max()) + 1 if self.loss == "multinomial" else 1

    @property
    def s(self) -> np.ndarray:
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def o(self) -> np.ndarray:
        return np.zeros((len(self.y), self.columns)) if self.offset is None else self.offset

    def price(self, atom: Atom) -> float:
        prices = np.full(self.size, 2.0) if self.prices is None else self.prices
        return float(np.prod([prices[k] for k in atom]))

    def covers(self, atom: Atom) -> np.ndarray:
        return self.truth[:, list(atom)].all(axis=1) & (self.s > 0)

    def sign_of(self, atom: Atom) -> int:
        found = {int(self.sign[k]) for k in atom} - {0} if self.sign is not None else set()
        assert len(found) < 2
        return found.pop() if found else 0

    def allowed(self, atom: Atom) -> bool:
        """Whether the conjunction belongs to the lattice, straight from the definition."""
        rows, weight = self.covers(atom), np.ones(len(self.y)) if self.row_weight is None else self.row_weight
        if not rows.any() or (self.max_length is not None and len(atom) > self.max_length):
            return False
        if self.min_support > 1 and weight[rows].sum() < self.min_support:
            return False
        if self.sign is not None and len({int(self.sign[k]) for k in atom} - {0}) > 1:
            return False
        shorter = (part for size in range(len(atom)) for part in itertools.combinations(atom, size))
        return all(self.covers(part).sum() > rows.sum() for part in shorter)

    @cached_property
    def lattice(self) -> list[Atom]:
        """Every conjunction, shortest first."""
        cap = self.size if self.max_length is None else min(self.size, self.max_length)
        every = (atom for size in range(cap + 1) for atom in itertools.combinations(range(self.size), size))
        return [atom for atom in every if self.allowed(atom)]

    @cached_property
    def phi(self) -> np.ndarray:
        return np.stack([self.covers(atom) for atom in self.lattice], axis=1).astype(float)

    @cached_property
    def below(self) -> np.ndarray:
        """below[v, w]: w is v or a longer conjunction that contains it."""
        sets = [set(atom) for atom in self.lattice]
        return np.array([[a <= b for b in sets] for a in sets])

    @cached_property
    def d(self) -> np.ndarray:
        return np.array([self.price(atom) for atom in self.lattice])

    @cached_property
    def free_sign(self) -> np.ndarray:
        """Per conjunction: nan if its weight must be zero, else the sign it may have (0 any)."""
        zero = [len(atom) == 0 or (len(atom) == 1 and atom[0] in self.silent) for atom in self.lattice]
        return np.where(zero, np.nan, [self.sign_of(atom) for atom in self.lattice])

    # ---- the four numbers -------------------------------------------------------------------------------
    def omega(self, F: np.ndarray) -> float:
        sizes = np.linalg.norm(F, axis=1)
        return float(sum(d * (sizes[row] ** self.rho).sum() ** (1 / self.rho) for d, row in zip(self.d, self.below, strict=True)))

    def loss_value(self, u: np.ndarray) -> float:
        if self.loss == "multinomial":
            each = [np.log(np.exp(row).sum()) - row[int(k)] for row, k in zip(u, self.y, strict=True)]
        else:
            each = [self._loss(float(y), float(v)) for y, v in zip(self.y, u[:, 0], strict=True)]
        return float(self.C * (self.s * np.array(each)).sum())

    def _loss(self, y: float, u: float) -> float:
        return {
            "logistic": lambda: float(np.log1p(np.exp(-y * u))),
            "squared_hinge": lambda: max(0.0, 1 - y * u) ** 2 / 2,
            "hinge": lambda: max(0.0, 1 - y * u),
            "squared": lambda: (y - u) ** 2 / 2,
            "huber": lambda: (y - u) ** 2 / 2 if abs(y - u) <= self.delta else self.delta * (abs(y - u) - self.delta / 2),
            "poisson": lambda: float(np.exp(u)) - y * u,
        }[self.loss]()

    def primal(self, F: np.ndarray, beta: np.ndarray) -> float:
        return self.omega(F) ** 2 / 2 + self.loss_value(self.phi @ F + beta + self.o)

    def dual_value(self, z: np.ndarray) -> float:
        """minus the conjugate, minus the offsets' share; -inf outside of the domain. Rows without weight are left out."""
        total = -float((z * self.o).sum())
        for i, row in enumerate(z):
            w = self.C * float(self.s[i])
            if w == 0:
                total += 0.0 if not row.any() else -np.inf
            elif self.loss == "multinomial":
                p = np.eye(self.columns)[int(self.y[i])] - row / w
                total += w * _entropy(p) if (p > -1e-9).all() and abs(p.sum() - 1) < 1e-9 else -np.inf
            else:
                total += self._conjugate(float(self.y[i]), float(row[0]), w)
        return total

    def _conjugate(self, y: float, z: float, w: float) -> float:
        a = y * z
        if self.loss == "logistic":
            return w * (_entropy(np.array([a / w, 1 - a / w]))) if -1e-9 <= a / w <= 1 + 1e-9 else -np.inf
        if self.loss == "hinge":
            return a if -1e-9 <= a / w <= 1 + 1e-9 else -np.inf
        if self.loss == "squared_hinge":
            return a - a * a / (2 * w) if a >= -1e-9 else -np.inf
        if self.loss == "poisson":
            r = y - z / w
            return w * (r + _entropy(np.array([r]))) if r >= -1e-9 else -np.inf
        if self.loss == "huber" and abs(z) > w * self.delta * (1 + 1e-9):
            return -np.inf
        return z * y - z * z / (2 * w)

    def pulls(self, z: np.ndarray) -> np.ndarray:
        """|G_w| as the dual norm counts it."""
        G = self.phi.T @ z
        sign = self.free_sign
        size = np.linalg.norm(G, axis=1)
        size = np.where(sign > 0, np.maximum(G[:, 0], 0), np.where(sign < 0, np.maximum(-G[:, 0], 0), size))
        return np.where(np.isnan(sign) & (np.array([len(atom) for atom in self.lattice]) > 0), 0.0, size)

    def tail(self, t: Atom, z: np.ndarray) -> float:
        """N(t), summed over every conjunction that contains t."""
        pulls, power, total = self.pulls(z), self.rho / (self.rho - 1), 0.0
        for atom, pull in zip(self.lattice, pulls, strict=True):
            if set(t) <= set(atom):
                rest = [1 + self.price((k,)) for k in atom if k not in t]
                total += (pull / (self.price(t) * np.prod(rest))) ** power
        return float(total ** (1 / power))

    def sources(self, hull: list[Atom]) -> list[Atom]:
        """Minimal conjunctions outside the hull."""
        inside = set(hull)
        return [atom for atom in self.lattice if atom not in inside and all(part in inside for part in _parts(atom))]

    def inside(self, hull: list[Atom], eta: np.ndarray, z: np.ndarray) -> float:
        """U_W of section 2.3, with kappa written out."""
        place = {atom: i for i, atom in enumerate(self.lattice)}
        pulls = self.pulls(z)[[place[atom] for atom in hull]]
        d, power = np.array([self.price(atom) for atom in hull]), self.rho / (self.rho - 1)
        x = d**self.rho * eta ** (1 - self.rho)
        below = np.array([[set(v) <= set(w) for w in hull] for v in hull])
        kappa = x[:, None] * below / (x[:, None] * below).sum(axis=0)
        return float(max((((kappa[v] * pulls) ** power).sum() ** (1 / power)) / d[v] for v in range(len(hull))))

    def norm_bound(self, hull: list[Atom], eta: np.ndarray, z: np.ndarray) -> float:
        return max([self.inside(hull, eta, z), *(self.tail(t, z) for t in self.sources(hull))])

    def best_bound(self, z: np.ndarray, norm: float) -> float:
        """max over t of dual(t z) - (t norm)^2 / 2 on a fine grid, refined around the best point."""
        low, high = 0.0, 4.0
        best = self.dual_value(0 * z)
        for _ in range(9):
            grid = np.linspace(low, high, 41)
            values = [self.dual_value(t * z) - (t * norm) ** 2 / 2 for t in grid]
            k = int(np.argmax(values))
            best = max(best, values[k])
            low, high = grid[max(k - 1, 0)], grid[min(k + 1, 40)]
        return best


def _entropy(p: np.ndarray) -> float:
    return float(-sum(x * np.log(x) for x in p if x > 0))


def _parts(atom: Atom) -> list[Atom]:
    return [atom[:j] + atom[j + 1 :] for j in range(len(atom))]


@dataclass(frozen=True)
class Optimum:
    """What the cone solver found: objective, weights over `Instance.lattice`, intercepts, and the dual point."""

    value: float
    F: np.ndarray
    beta: np.ndarray
    z: np.ndarray


def generic_optimum(instance: Instance) -> Optimum:
    """The optimum over the whole listed lattice, by Clarabel; accurate to about 1e-8."""
    import cvxpy as cp

    rows, V, K = len(instance.y), len(instance.lattice), instance.columns
    F, beta, u = cp.Variable((V, K)), cp.Variable((1, K)), cp.Variable((rows, K))
    link = u == instance.phi @ F + np.ones((rows, 1)) @ beta + instance.o
    loss = instance.C * cp.sum(cp.multiply(instance.s, _cone_loss(instance, u)))
    problem = cp.Problem(cp.Minimize(cp.square(_omega(instance, F)) / 2 + loss), [link, *_weight_constraints(instance, F)])
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    assert problem.status in ("optimal", "optimal_inaccurate"), problem.status
    z = np.asarray(link.dual_value).reshape(rows, K)
    return Optimum(float(problem.value), np.asarray(F.value), np.asarray(beta.value)[0], z)


def dual_norm(instance: Instance, z: np.ndarray) -> float:
    """Omega*(Phi' z) itself: the largest <F, Phi' z> over the unit ball of Omega, by Clarabel."""
    import cvxpy as cp

    F = cp.Variable((len(instance.lattice), instance.columns))
    pairing = cp.sum(cp.multiply(F, instance.phi.T @ z))
    problem = cp.Problem(cp.Maximize(pairing), [_omega(instance, F) <= 1, *_weight_constraints(instance, F)])
    problem.solve(solver=cp.CLARABEL, **TIGHT)
    return float(problem.value)


def _omega(instance: Instance, F: Any) -> Any:
    import cvxpy as cp

    sizes = cp.abs(F[:, 0]) if instance.columns == 1 else cp.norm(F, 2, axis=1)
    groups = [np.flatnonzero(row) for row in instance.below]
    norms = [cp.pnorm(sizes[rows], instance.rho) if len(rows) > 1 else sizes[int(rows[0])] for rows in groups]
    return sum(float(d) * norm for d, norm in zip(instance.d, norms, strict=True))


def _weight_constraints(instance: Instance, F: Any) -> list[Any]:
    """Weights that must be zero, and those that may have one sign only."""
    found: list[Any] = []
    for i, sign in enumerate(instance.free_sign):
        if np.isnan(sign):
            found.append(F[i] == 0)
        elif sign:
            found.append(sign * F[i] >= 0)
    return found


def _cone_loss(instance: Instance, u: Any) -> Any:
    import cvxpy as cp

    y = instance.y
    if instance.loss == "multinomial":
        return cp.log_sum_exp(u, axis=1) - cp.sum(cp.multiply(np.eye(instance.columns)[y.astype(int)], u), axis=1)
    margin, score = cp.multiply(y, u[:, 0]), u[:, 0]
    return {
        "logistic": lambda: cp.logistic(-margin),
        "squared_hinge": lambda: cp.square(cp.pos(1 - margin)) / 2,
        "hinge": lambda: cp.pos(1 - margin),
        "squared": lambda: cp.square(y - score) / 2,
        "huber": lambda: cp.huber(y - score, instance.delta) / 2,
        "poisson": lambda: cp.exp(score) - cp.multiply(y, score),
    }[instance.loss]()


def random_instance(rng: np.random.Generator, loss: str, p: int = 4, rows: int = 24, **options: Any) -> Instance:
    """Literals with an implied one and a repeated one, targets that follow a rule with some noise."""
    truth = rng.random((rows, p)) < 0.6
    truth[:, p - 1] = truth[:, 0] | truth[:, 1]
    if p > 4:
        truth[:, p - 2] = ~truth[:, 2]
    signal = (truth[:, 0] & truth[:, 1]) | truth[:, 2]
    flipped = signal ^ (rng.random(rows) < 0.15)
    if loss in MARGINS:
        y = np.where(flipped, 1.0, -1.0)
    elif loss == "multinomial":
        y = flipped.astype(float) + (truth[:, 0] & (rng.random(rows) < 0.8))
        y[:3] = [0, 1, 2]
    else:
        y = rng.poisson(np.exp(signal)).astype(float) if loss == "poisson" else 3.0 * signal + rng.normal(size=rows)
    return Instance(truth, y, loss, **options)
