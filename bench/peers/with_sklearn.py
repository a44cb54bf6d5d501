"""scikit-learn: AUC over all rows."""

from __future__ import annotations

import pyarrow as pa
from sklearn.metrics import roc_auc_score


def auc(table: pa.Table, presorted: bool) -> list[float]:
    return [float(roc_auc_score(table["click"].to_numpy(), table["score_a"].to_numpy()))]
