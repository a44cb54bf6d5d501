"""The engine inside other libraries: metrics for training loops, scikit-learn, ir_measures.

::

    import fastrank_eval as fe

    lightgbm.train(..., feval=fe.neighbours.lightgbm_metric("GAUC", group=users))
    xgboost.train(..., custom_metric=fe.neighbours.xgboost_metric("GAUC", group=users))
    CatBoostClassifier(eval_metric=fe.neighbours.catboost_metric("GAUC", group=users))
    fe.neighbours.ir_measures.register()
    sklearn.metrics.make_scorer(fe.neighbours.scorer("GAUC"), response_method="predict_proba")

None of these libraries is imported here, nor needed for what another one calls.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastrank_eval.neighbours import ir_measures
    from fastrank_eval.neighbours.scikit_learn import group_score, scorer
    from fastrank_eval.neighbours.training import (
        catboost_metric,
        lightgbm_metric,
        xgboost_metric,
    )

_SCIKIT_LEARN = "fastrank_eval.neighbours.scikit_learn"
_TRAINING = "fastrank_eval.neighbours.training"

_HOME = {
    "catboost_metric": _TRAINING,
    "group_score": _SCIKIT_LEARN,
    "ir_measures": "fastrank_eval.neighbours.ir_measures",
    "lightgbm_metric": _TRAINING,
    "scorer": _SCIKIT_LEARN,
    "xgboost_metric": _TRAINING,
}

__all__ = [
    "catboost_metric",
    "group_score",
    "ir_measures",
    "lightgbm_metric",
    "scorer",
    "xgboost_metric",
]


def __getattr__(name: str) -> Any:
    """Import a public name from the file that holds it, once."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(home)
    return module if home == f"{__name__}.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
