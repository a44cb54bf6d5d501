"""Use the engine in training loops, scikit-learn and ir_measures.

::

    import fastrank_eval as fe

    lightgbm.train(..., feval=fe.integrations.lightgbm_metric("GAUC", group=users))
    xgboost.train(..., custom_metric=fe.integrations.xgboost_metric("GAUC", group=users))
    CatBoostClassifier(eval_metric=fe.integrations.catboost_metric("GAUC", group=users))
    fe.integrations.ir_measures.register()
    sklearn.metrics.make_scorer(fe.integrations.scorer("GAUC"), response_method="predict_proba")

This module imports none of these libraries; each function needs only its own library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastrank_eval.integrations import ir_measures
    from fastrank_eval.integrations.boosting import (
        catboost_metric,
        lightgbm_metric,
        xgboost_metric,
    )
    from fastrank_eval.integrations.sklearn import group_score, scorer

_SCIKIT_LEARN = "fastrank_eval.integrations.sklearn"
_BOOSTING = "fastrank_eval.integrations.boosting"

_MODULES = {
    "catboost_metric": _BOOSTING,
    "group_score": _SCIKIT_LEARN,
    "ir_measures": "fastrank_eval.integrations.ir_measures",
    "lightgbm_metric": _BOOSTING,
    "scorer": _SCIKIT_LEARN,
    "xgboost_metric": _BOOSTING,
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
    """Import a public name from its module."""
    module_name = _MODULES.get(name)
    if module_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(module_name)
    return module if module_name == f"{__name__}.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
