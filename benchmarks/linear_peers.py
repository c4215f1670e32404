"""Other libraries' paths and choices of a linear model, each behind one shape; they may run in another environment.

A path function takes (X, y) with columns centred and of mean square 1 and returns what its path reached. A choice
takes (X, y, folds) and returns coefficients: every library gets the same folds and the best mean over them is taken.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Json = dict[str, Any]
Folds = list[tuple[Array, Array]]
POINTS, END = 100, 1e-2  # penalties of a path, and the smallest over the largest


def reached(alphas: Any, last: Any) -> Json:
    """How long a path is, how far it went, and the size of its last model."""
    alphas = np.asarray(alphas, dtype=float)
    return {"knots": len(alphas), "end": float(alphas[0] / alphas[-1]) if alphas[-1] > 0 else float("inf"), "size": int(last)}


def path_sklearn(X: Array, y: Array) -> Json:
    from sklearn.linear_model import lasso_path

    alphas, found, _ = lasso_path(X, y, eps=END, alphas=POINTS)
    return reached(alphas, (found[:, -1] != 0).sum())


def path_lars(X: Array, y: Array) -> Json:
    from sklearn.linear_model import lars_path

    alphas, _, found = lars_path(X, y, method="lasso", max_iter=300)
    return reached(alphas, (found[:, -1] != 0).sum())


def path_celer(X: Array, y: Array) -> Json:
    from celer import celer_path

    alphas, found = celer_path(X, y, "lasso" if len(np.unique(y)) > 2 else "logreg", eps=END, n_alphas=POINTS)[:2]
    return reached(alphas, (found[:, -1] != 0).sum())


def grid(largest: float) -> Array:
    """The penalties everybody else chooses by default: even in the logarithm."""
    return np.geomspace(largest, END * largest, POINTS)


def path_skglm(X: Array, y: Array) -> Json:
    from skglm import Lasso

    alphas = grid(float(np.abs(X.T @ y).max()) / len(y))
    found = Lasso(fit_intercept=False).path(X, y, alphas, return_n_iter=False)[1]
    return reached(alphas, (found[:, -1] != 0).sum())


def path_skglm_classes(X: Array, y: Array) -> Json:
    from skglm import SparseLogisticRegression

    model = SparseLogisticRegression(warm_start=True)
    alphas = grid(float(np.abs(X.T @ (y - y.mean())).max()) / 2 / len(y))
    for alpha in alphas:
        model.alpha = float(alpha)
        model.fit(X, y)
    return reached(alphas, (model.coef_ != 0).sum())


def path_adelie(X: Array, y: Array) -> Json:
    import adelie

    glm = adelie.glm.gaussian(y) if len(np.unique(y)) > 2 else adelie.glm.binomial((y > 0).astype(float))
    state = adelie.grpnet(X=X, glm=glm, early_exit=False, progress_bar=False, n_threads=1, lmda_path_size=POINTS, min_ratio=END)
    return reached(state.lmdas, state.betas[-1].nnz)


PATHS = {
    "lasso_path": path_sklearn, "lars_path": path_lars, "celer": path_celer, "skglm": path_skglm, "skglm-classes": path_skglm_classes,
    "adelie": path_adelie,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- choosing one model


def least_squares(X: Array, y: Array, support: Array) -> tuple[Array, float]:
    """Coefficients on a support, and the intercept."""
    coefficients, center = np.zeros(X.shape[1]), X[:, support].mean(axis=0)
    if support.any():
        coefficients[support] = np.linalg.lstsq(X[:, support] - center, y - y.mean(), rcond=None)[0]
    return coefficients, float(y.mean() - center @ coefficients[support])


def choose_lasso(X: Array, y: Array, folds: Folds) -> Array:
    from sklearn.linear_model import LassoCV

    return LassoCV(cv=folds).fit(X, y).coef_


def lasso_supports(X: Array, y: Array) -> tuple[Array, Array]:
    """Every knot of the lasso path, and the support between it and the knot before."""
    from sklearn.linear_model import lars_path

    alphas, _, found = lars_path(X - X.mean(axis=0), y - y.mean(), method="lasso", max_iter=len(y) // 2 + 100)
    return alphas, found.T != 0


def choose_relaxed(X: Array, y: Array, folds: Folds) -> Array:
    """Least squares on every support of the lasso path; the penalty by the folds' best mean."""
    curves = []
    for train, test in folds:
        alphas, supports = lasso_supports(X[train], y[train])
        errors = np.full(len(alphas), np.inf)
        for i, support in enumerate(supports):
            if support.sum() < len(train) - 1:
                coefficients, level = least_squares(X[train], y[train], support)
                errors[i] = ((y[test] - X[test] @ coefficients - level) ** 2).mean()
        curves.append((alphas, errors))
    union = np.unique(np.concatenate([alphas for alphas, _ in curves]))
    # the support at a penalty is that of the first knot at or below it
    at = [errors[np.minimum(np.searchsorted(-alphas, -union, side="left"), len(alphas) - 1)] for alphas, errors in curves]
    best = union[int(np.argmin(np.mean(at, axis=0)))]
    alphas, supports = lasso_supports(X, y)
    return least_squares(X, y, supports[min(int(np.searchsorted(-alphas, -best, side="left")), len(alphas) - 1)])[0]


def choose_omp(X: Array, y: Array, folds: Folds) -> Array:
    from sklearn.linear_model import OrthogonalMatchingPursuitCV

    return OrthogonalMatchingPursuitCV(max_iter=100, cv=folds).fit(X, y).coef_


def choose_mcp(X: Array, y: Array, folds: Folds) -> Array:
    """skglm's MCP over 100 penalties and three concavities; penalty and concavity by the folds' best mean."""
    from skglm import MCPRegression

    alphas = np.geomspace(1.0, 1e-3, POINTS) * float(np.abs(X.T @ (y - y.mean())).max()) / len(y)

    def path(part: Array, target: Array, gamma: float) -> tuple[Array, Array]:
        center = part.mean(axis=0)
        model = MCPRegression(gamma=gamma, fit_intercept=False)
        found = model.path(np.asfortranarray(part - center), target - target.mean(), alphas, return_n_iter=False)[1]
        return found, target.mean() - center @ found

    best, chosen = np.inf, (3.0, 0)
    for gamma in (1.5, 3.0, 6.0):
        errors = np.zeros(len(alphas))
        for train, test in folds:
            found, level = path(X[train], y[train], gamma)
            errors += ((y[test, None] - X[test] @ found - level) ** 2).mean(axis=0)
        if errors.min() < best:
            best, chosen = float(errors.min()), (gamma, int(np.argmin(errors)))
    return path(X, y, chosen[0])[0][:, chosen[1]]


def choose_abess(X: Array, y: Array, folds: Folds) -> Array:
    """abess, sizes 0 to 100 by its own cross-validation on the same folds."""
    from abess import LinearRegression

    number = np.zeros(len(y), dtype=int)
    for k, (_, test) in enumerate(folds):
        number[test] = k + 1
    return LinearRegression(support_size=range(101), cv=len(folds), thread=1).fit(X, y, cv_fold_id=number).coef_


CHOICES = {
    "lasso": choose_lasso, "relaxed": choose_relaxed, "omp": choose_omp, "mcp": choose_mcp, "abess": choose_abess,
}  # fmt: skip
