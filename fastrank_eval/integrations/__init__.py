"""Use the engine in training loops, scikit-learn and ir_measures.

::

    import fastrank_eval as fe

    lightgbm.train(..., feval=fe.integrations.lightgbm_metric("GAUC", group=users))
    xgboost.train(..., custom_metric=fe.integrations.xgboost_metric("GAUC", group=users))
    CatBoostClassifier(eval_metric=fe.integrations.catboost_metric("GAUC", group=users))
    fe.integrations.ir_measures.register()
    SentenceTransformerTrainer(
        ..., evaluator=fe.integrations.sentence_transformers.evaluator(queries, corpus, relevant)
    )
    sklearn.metrics.make_scorer(fe.integrations.scorer("GAUC"), response_method="predict_proba")

This module imports none of these libraries; each function needs only its own library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastrank_eval.integrations import ir_measures, sentence_transformers
    from fastrank_eval.integrations.metrics import (
        catboost_metric,
        group_score,
        lightgbm_metric,
        scorer,
        xgboost_metric,
    )

__all__ = [
    "catboost_metric",
    "group_score",
    "ir_measures",
    "lightgbm_metric",
    "scorer",
    "sentence_transformers",
    "xgboost_metric",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("ir_measures", "sentence_transformers"):
        return import_module(f"{__name__}.{name}")
    return getattr(import_module(f"{__name__}.metrics"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
