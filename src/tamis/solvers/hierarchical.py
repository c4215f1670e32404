"""Certified hierarchical rule ensembles: minimise Omega(F)^2 / 2 + C * loss over a whole lattice of atoms.

The held atoms are solved by `reduced`; the structure prices all others. The dual point is made an exact
integer point first, so that prices are sums of integers. A state is what a knot stores, so a fit resumed
from a journal goes on exactly as it would have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tamis.core.certificate import Certificate, Scope
from tamis.core.dual import DualPoint, allowed_norm, balanced, best_scale, constant_model, integer_point
from tamis.core.follow import Problem, Verdict
from tamis.core.loss import Targets
from tamis.core.path import Knot
from tamis.core.structure import Atom, Held, Hierarchy, Priced
from tamis.solvers.norm import polish, pulls, row_sizes
from tamis.solvers.reduced import Point, objective, solve_reduced

Floats = NDArray[np.float64]
BITS = (11, 15, 23, 31)  # sizes of the integer dual point, the next one when rounding costs too much
NOTHING = 1e-6  # gains below this share of the constant model's objective are not gains
ROUNDING = 1e-4  # of the target, itself below what was asked: the floor of a search is met to rounding, not exactly
TIGHTEST = 1e-4  # share of the target below which tighter held solves are given up
EASED = (1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0)  # times the floor wanted: what a fit that may not grow tries to certify
EAGER = 0.95  # share of the floor from which atoms are let in when a knob value is new; they would be next
BARREN = 0.1  # share of the target by which newcomers must lower the objective for a fair search to go on
START_SHARE = 1e-3  # new atoms start at this share of the largest weight


@dataclass(frozen=True)
class State:
    """Held atoms, the model on them, the constant model, and the last certified dual point."""

    held: Held
    weights: Floats
    intercept: Floats
    eta: Floats | None
    constant: float
    point: Point | None = None
    dual: DualPoint | None = None
    certified_eta: Floats | None = None
    bound: float = -np.inf
    tight: float = 1.0
    before: float = np.inf  # objective when this knob value was last certified
    looked: int = 0
    t: float = 0.0


@dataclass
class HierarchicalSolver:
    """Active-set solver with exact tail checks.

    Parameters
    ----------
    batch : int
        Newcomers let in per round; half as many as are held once that is more, so that large models take few rounds.
    max_atoms : int
        Held atoms at which a knot is given up as it stands.
    prune : float or None
        Keep at each knot the fewest atoms that still meet the certificate, but all whose weight is above this share of
        the largest. None: keep all.
    reducer : callable
        Solves the problem on the held atoms.
    keep_state : bool
        Store in knots what a resumed run needs.
    thorough : bool
        Search until certified. Folds of a cross-validation need good models, not certificates: they search with a
        fair, bounded effort, and claim nothing.
    """

    batch: int = 100
    max_atoms: int = 3000
    prune: float | None = 0.0
    reducer: Callable[..., Point] = solve_reduced
    keep_state: bool = True
    thorough: bool = True
    needs: tuple[type, ...] = field(default=(Hierarchy,), repr=False)

    def init(self, problem: Problem) -> State:
        """The root alone, at the best constant model (found afresh at each knob value)."""
        structure = cast(Hierarchy, problem.structure)
        columns = problem.targets.columns
        return State(structure.root(), np.zeros((1, columns)), np.zeros(columns), None, np.nan)

    def full(self, state: State) -> bool:
        """No more atoms may be held."""
        return len(state.held) >= self.max_atoms

    def step(self, problem: Problem, t: float, state: State, stop: Callable[[], bool]) -> State:
        """Solve on the held atoms to a third of what is asked, or tighter when pricing asked for it."""
        targets = problem.targets.at(t)
        if state.t != t:
            level, constant = constant_model(targets, targets.columns)
            intercept = state.intercept if row_sizes(state.weights).any() else level
            state = replace(state, constant=constant, intercept=intercept, t=t, bound=-np.inf, tight=1.0, before=np.inf)
        if len(state.held) == 1:
            level, constant = constant_model(targets, targets.columns)
            point = Point(np.zeros((1, len(level))), level, constant, 0.0, _constant_pull(targets, level), np.ones(1), -np.inf)
            return replace(state, point=point, intercept=level)
        slack = lambda value: state.tight * self._target(problem, state.constant, value) / 3.0  # noqa: E731
        weights, intercept = _start(targets, state)
        rho = cast(Hierarchy, problem.structure).rho
        hopeful = bool(np.isfinite(state.before))  # the last model is never good enough for another knob value
        point = self.reducer(state.held, targets, (weights, intercept), rho, slack, eta=state.eta, stop=stop, hopeful=hopeful)
        return replace(state, point=point, weights=point.weights, intercept=point.intercept, eta=point.eta)

    def _target(self, problem: Problem, constant: float, value: float) -> float:
        """The absolute gap asked for: a share of the objective, and of what is gained over the constant model."""
        gained = constant - value
        wanted = min(problem.tolerance * abs(value), max(problem.gain_tolerance * gained, 0.9 * NOTHING * abs(constant) - gained))
        return max(wanted, 1e-13 * abs(constant)) * (0.98 if self.prune is None else 0.5)

    def certify(self, problem: Problem, t: float, state: State, stop: Callable[[], bool]) -> tuple[Verdict, State]:
        """Bound the dual norm over held atoms and over all others, and say what follows."""
        structure, targets, point = cast(Hierarchy, problem.structure), problem.targets.at(t), state.point
        assert point is not None
        target = self._target(problem, state.constant, point.value)
        dual, limit, eta = self._integer_dual(targets, state, target, structure.rho)
        pull = dual.pull()
        floor = allowed_norm(targets, pull, point.value - target)
        scale = float(np.sqrt(2.0 * abs(point.value))) or 1.0
        # a new knob value mostly asks for new atoms: who is worth it on sight comes in before anybody looks deeper
        opening = not np.isfinite(state.before) and len(state.held) > 1
        priced = self._priced(structure, dual.folded(targets), state, max(floor, 1e-9 * scale) * (EAGER if opening else 1.0), stop, opening)
        norm = max(limit, priced.bound)
        bound = best_scale(targets, pull, norm)[0]
        looked = state.looked + priced.looked
        if bound > state.bound or not np.isfinite(state.bound):
            state = replace(state, bound=bound, dual=dual, certified_eta=eta)
        met = point.value - state.bound <= target * (1 + ROUNDING)
        # nothing to let in and yet not met: the held problem itself must be solved more tightly
        tight = state.tight if met or priced.newcomers else 0.3 * state.tight
        # what the last newcomers gave a search that is not thorough foretells what the next would give
        barren = not self.thorough and state.before - point.value <= BARREN * target
        state = replace(state, tight=tight, looked=looked, before=point.value)
        scope = Scope(structure.describe(), f"{problem.knob} = {t:.4g}", len(state.held) - 1, looked)
        certificate = Certificate("duality gap", point.value, state.bound, problem.tolerance, scope, state.constant, problem.gain_tolerance)
        settled = met or tight < TIGHTEST or barren or not (self.thorough or priced.newcomers)
        return Verdict(certificate, priced.newcomers, settled), state

    def _priced(self, structure: Hierarchy, dual: DualPoint, state: State, floor: float, stop: Callable[[], bool], opening: bool) -> Priced:
        """Newcomers, and a bound on every atom outside; where no newcomer may be let in, the lowest of some floors that holds.

        A search that has found newcomers is cut short, so the bound it leaves is far too high to end with.
        """
        count = max(self.batch, len(state.held) // 2)
        priced = structure.price(dual, state.held, floor, count, stop, thorough=self.thorough, enough=1 if opening else count)
        if not (self.thorough and self.full(state) and priced.newcomers):
            return priced
        for factor in EASED:
            eased = structure.price(dual, state.held, factor * floor, 1, stop)
            priced = replace(priced, bound=min(priced.bound, eased.bound), looked=priced.looked + eased.looked)
            if not eased.newcomers or stop():
                break
        return priced

    def _integer_dual(self, targets: Targets, state: State, target: float, rho: float) -> tuple[DualPoint, float, Floats]:
        """The coarsest integer point whose rounding costs next to nothing of the target, with its norm on the held set."""
        point = state.point
        assert point is not None
        fine = max(1e-7, 0.05 * target / abs(point.value)) if point.value else 1e-7
        for bits in BITS:
            dual = integer_point(targets, point.pull, bits)
            force = pulls(state.held, state.held.columns.score(targets.fold(dual.units)) * dual.quantum)
            limit, eta = polish(state.held, force, point.eta, rho, slack=fine)
            if len(state.held) == 1 or best_scale(targets, dual.pull(), limit)[0] >= point.bound - 0.05 * target:
                break
        return dual, limit, eta

    def grow(self, problem: Problem, state: State, newcomers: Sequence[Atom]) -> State:
        """Let newcomers in, at a small share of the largest weight and in the direction they are pulled."""
        structure = cast(Hierarchy, problem.structure)
        fresh = [atom for atom in newcomers if atom not in state.held.index]
        if not fresh:
            return state
        held = structure.grow(state.held, fresh)
        weights = np.zeros((len(held), state.weights.shape[1]))
        weights[: len(state.held)] = state.weights
        eta = None
        if state.eta is not None:
            eta = np.concatenate([state.eta, np.full(len(held) - len(state.held), 1e-3 * state.eta.max())])
        return replace(
            state,
            held=held,
            weights=_warm(held, weights, problem.targets.fold(state.point.pull) if state.point is not None else None, len(state.held)),
            eta=eta,
        )

    def knot(self, problem: Problem, t: float, state: State, certificate: Certificate) -> Knot:
        """The model as it will be shown: few rules, its own objective, the same bound."""
        structure, targets, point = cast(Hierarchy, problem.structure), problem.targets.at(t), state.point
        assert point is not None
        keep, weights, intercept, value = self._pruned(problem, targets, state, certificate)
        size = row_sizes(weights)
        order = sorted(range(len(keep)), key=lambda i: (-size[i], len(state.held.atoms[keep[i]]), state.held.atoms[keep[i]]))
        atoms = tuple(state.held.atoms[keep[i]] for i in order)
        measures = {
            "value": value,
            "loss": targets.value(np.asarray(state.held.columns.dot(np.array(keep, dtype=int), weights)) + intercept) / t,
        }
        measures |= {"norm": point.norm, "held": float(len(state.held) - 1), "looked": float(state.looked), "lambda": point.norm / t}
        return Knot(
            t, atoms, tuple(structure.name(atom) for atom in atoms), weights[order], intercept,
            replace(certificate, value=value), measures, self._stored(state, value) if self.keep_state else {},
        )  # fmt: skip

    def _pruned(
        self, problem: Problem, targets: Targets, state: State, certificate: Certificate
    ) -> tuple[list[int], Floats, Floats, float]:
        """Positions, weights, intercept and objective of the atoms kept."""
        point, held = state.point, state.held
        assert point is not None
        if self.prune is not None:
            from tamis.solvers.prune import fewest

            return fewest(problem, targets, held, point, certificate, self.reducer, self.prune)
        keep = [int(i) for i in np.flatnonzero((row_sizes(point.weights) > 0) & ~held.silent)]
        kept = np.zeros_like(point.weights)
        kept[keep] = point.weights[keep]
        # the claim is about the model shown, so its objective is computed afresh
        value = objective(held, targets, kept, point.intercept, cast(Hierarchy, problem.structure).rho)[0]
        return keep, point.weights[keep], point.intercept, value

    # ---- what a knot stores, and back -----------------------------------------------------------------
    def _stored(self, state: State, value: float) -> dict[str, Any]:
        point, dual = state.point, state.dual
        assert point is not None
        assert dual is not None
        assert state.certified_eta is not None
        atoms = state.held.atoms
        return {
            "held": np.array([k for atom in atoms for k in atom], dtype=np.int64),
            "length": np.array([len(atom) for atom in atoms], dtype=np.int64),
            "weights": state.weights, "intercept": state.intercept, "eta": state.eta if state.eta is not None else np.zeros(0),
            "certified_eta": np.pad(state.certified_eta, (0, len(atoms) - len(state.certified_eta))),
            "certified_held": np.array(len(state.certified_eta)),
            "units": _smallest(dual.units), "quantum": np.array(dual.quantum), "looked": np.array(state.looked),
            "value": np.array(value), "bound": np.array(state.bound),
        }  # fmt: skip

    def restore(self, problem: Problem, knot: Knot) -> State:
        """The state in which the knot was left."""
        structure, stored = cast(Any, problem.structure), knot.state
        pieces = np.split(stored["held"], np.cumsum(stored["length"])[:-1])
        held = structure.hold([tuple(int(k) for k in piece) for piece in pieces])
        eta = stored["eta"] if len(stored["eta"]) else None
        return State(held, stored["weights"], stored["intercept"], eta, np.nan, looked=int(stored["looked"]))


def _start(targets: Targets, state: State) -> tuple[Floats, Floats]:
    """Where the last solution was, unless nothing has a weight: then the constant model."""
    if not row_sizes(state.weights).any():
        return state.weights, constant_model(targets, targets.columns)[0]
    return state.weights, state.intercept


def _smallest(units: Any) -> Any:
    """The same integers in the smallest type that holds them."""
    return units.astype(np.min_scalar_type(-int(np.abs(units).max(initial=0)) - 1))


def _constant_pull(targets: Targets, level: Floats) -> Floats:
    """A balanced dual point of the constant model; a corner of the loss is rounded first, to find a balanced slope there."""
    if not targets.loss.smooth:
        targets = targets.with_loss(targets.loss.smoothed(0.1))
        level = constant_model(targets, targets.columns)[0]
    return balanced(targets, targets.pull(np.broadcast_to(level, (targets.design_rows, targets.columns))))


def _warm(held: Held, weights: Floats, pull: Floats | None, before: int) -> Floats:
    """Small weights for the newcomers, along their pull."""
    if pull is None:
        return weights
    top = row_sizes(weights).max(initial=0.0)
    fresh = np.arange(before, len(held))
    force = np.asarray(held.columns.part(fresh).score(pull))
    size = row_sizes(force)
    force[size > 0] /= size[size > 0, None]
    if held.sign.any():
        wrong = held.sign[fresh] * force[:, 0] < 0
        force[wrong] = 0.0
    weights[fresh] = START_SHARE * top * force / held.cost[fresh, None]
    weights[fresh[held.silent[fresh]]] = 0.0
    return weights
