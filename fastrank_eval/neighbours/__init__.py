"""The engine inside other libraries: metrics for training loops.

::

    import fastrank_eval as fe

    lightgbm.train(..., feval=fe.neighbours.lightgbm_metric("GAUC", group=users))
    xgboost.train(..., custom_metric=fe.neighbours.xgboost_metric("GAUC", group=users))
    CatBoostClassifier(eval_metric=fe.neighbours.catboost_metric("GAUC", group=users))

None of these libraries is imported here, nor needed for what another one calls.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastrank_eval.neighbours.training import (
        catboost_metric,
        lightgbm_metric,
        xgboost_metric,
    )

_TRAINING = "fastrank_eval.neighbours.training"

_HOME = {
    "catboost_metric": _TRAINING,
    "lightgbm_metric": _TRAINING,
    "xgboost_metric": _TRAINING,
}

__all__ = ["catboost_metric", "lightgbm_metric", "xgboost_metric"]


def __getattr__(name: str) -> Any:
    """Import a public name from the file that holds it, once."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(home)
    return module if home == f"{__name__}.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
