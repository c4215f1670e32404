"""What an estimator with a transformation offers beside its coefficients: three answers at every time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.core.path import Knot, Path
from tamis.structures.transform import Transform

Array = NDArray[Any]


class SplitModel:
    """What an estimator offers beside its coefficients when it was given a transformation."""

    path_: Path
    t_: float
    _arrays: dict[str, Array]
    _method: Any

    @property
    def gamma_(self) -> Array:
        """The sparse part of the chosen model: D beta, as selected."""
        return self.gamma(self.t_)

    @property
    def projected_coef_(self) -> Array:
        """Coefficients that obey the selection exactly: D beta is zero off the support of gamma."""
        found = self._split_arrays("projected")[self._position(self.t_)]
        return np.asarray(found[:, 0] if found.shape[1] == 1 else found.T)

    @property
    def projected_intercept_(self) -> Any:
        """The intercept that goes with `projected_coef_`."""
        found = self._split_arrays("projected_level")[self._position(self.t_)]
        return float(found[0]) if len(found) == 1 else found

    @property
    def transformation_(self) -> Transform:
        """D, with the names of its rows."""
        self._split_arrays("beta")
        transform: Transform = self._method.transform
        return transform

    def _weights(self, knot: Knot) -> tuple[Array, Array]:
        """Columns and coefficients that predict: with a transformation, the dense ones."""
        if "beta" not in self._arrays:
            found: tuple[Array, Array] = self._method.weights(knot)
            return found
        beta = knot.state["beta"] if "beta" in knot.state else self._arrays["beta"][self._position(knot.t)]
        return np.arange(len(beta)), beta

    def gamma(self, t: float) -> Array:
        """gamma at a time."""
        self._split_arrays("beta")
        knot = self.path_.read(t)
        dense = np.zeros((self._method.transform.shape[0], knot.coefficients.shape[1]))
        dense[[atom[0] for atom in knot.atoms]] = knot.coefficients
        return np.asarray(dense[:, 0] if dense.shape[1] == 1 else dense.T)

    def _position(self, t: float) -> int:
        knot = self.path_.at(t)
        return next(i for i, other in enumerate(self.path_.knots) if other is knot)

    def _split_arrays(self, name: str) -> Array:
        if "beta" not in getattr(self, "_arrays", {}):
            said = (
                "This model was fitted without a transformation, so it has no gamma and nothing was projected; fit with transformation=..."
            )
            raise AttributeError(said)
        return self._arrays[name]
