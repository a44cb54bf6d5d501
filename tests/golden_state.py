"""Writes the golden file of the format of saved states: ``python -m tests.golden_state``.

It is written once for each version of the format and never again: later versions have to read it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import fastrank_eval as fe
from fastrank_eval.engine.state_file import FORMAT

FOLDER = Path(__file__).parent / "fixtures"
GOLDEN = FOLDER / "state_format_4.arrow"
VALUES = FOLDER / "state_format_4.json"
MEASURES = (
    "GAUC,GAUC(weight='positives'),nDCG@3,GMAP,NumRel,AUC,AUC(se='clustered'),AUC(bins=16),KS,"
    "PRAUC,LogLoss,NE,PCOC,ECCE,ECE(bins=5),ECE(bins=3, by='count'),MSE,PPV,Lift,"
    "FieldECE(field='ad'),FieldRCE(field='ad')"
)


def golden_result() -> fe.Result:
    """Twelve dozen rows whose numbers any machine makes."""
    rows = np.arange(144)
    log = {
        "user": rows // 6,
        "click": (rows * 7 % 11 < 3).astype(np.int64),
        "pctr": (rows * 37 % 101 + 1) / 103,
        "old": (rows * 53 % 97 + 1) / 99,
        "weight": rows % 5 / 4,
        "slot": rows // 3 % 3,
        "age": [None if row % 7 == 0 else row * 5 % 61 for row in rows.tolist()],
        "ad": [None if row % 9 == 0 else f"ad {row % 4}" + "." * (row % 4 * 30) for row in rows],
    }
    return fe.evaluate(
        log,
        group="user",
        label="click",
        score=["pctr", "old"],
        weight="weight",
        by=["slot", "age:20,40", "pctr:quantile2"],
        baseline="old",
        measures=MEASURES,
        weight_rows="ignore",
        keep="groups",
    )


def main() -> None:
    """Write the file, and the values that it holds."""
    if FORMAT != 4 or GOLDEN.exists():
        raise SystemExit(f"{GOLDEN} is there; a newer format has a file of its own.")
    result = golden_result()
    result.state.save(GOLDEN)
    values: dict[str, dict[str, tuple[float | None, float | None]]] = {}
    for line in result:
        told = tuple(None if number != number else number for number in (line.value, line.se))
        values.setdefault(f"{line.score} {line.slice}", {})[line.measure] = told
    told = {"rows": result.meta.rows, "groups": result.meta.groups, "values": values}
    VALUES.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
