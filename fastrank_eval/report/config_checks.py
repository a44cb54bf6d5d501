"""What a configuration of nightly reports says that cannot be told from one key alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from fastrank_eval.errors import near
from fastrank_eval.gates import Gate, gate
from fastrank_eval.measures.probabilities import sampling_rate_of
from fastrank_eval.measures.text import measures_asked
from fastrank_eval.profiles import DEFAULTS, measures_in_force, names_asked, profile_of
from fastrank_eval.report.dates import check_dated, dated, dates_in, names_date
from fastrank_eval.report.tables import Complaints
from fastrank_eval.undefined import undefined_policies

__all__ = ["check_together"]


def check_together(given: dict[str, dict[str, Any]], complaints: Complaints) -> None:
    """Complain of what could fail later, of tables that are right in themselves.

    Parameters
    ----------
    given : dict of str to dict
        The keys of each table.
    complaints : Complaints
        What is wrong with single keys already.
    """
    wrong = frozenset(complaints.tables)
    if "source" not in wrong:
        _check_source(given["source"], complaints)
    if "models" not in wrong:
        _check_models(given["models"], complaints)
    if not wrong & {"models", "columns"}:
        _check_columns(given["columns"], given["models"]["scores"], complaints)
    if not wrong & {"evaluate", "columns"}:
        _check_options(given, complaints)
    scores = given["models"]["scores"]
    require = None
    if "evaluate" not in wrong:
        columns = None if "columns" in wrong else given["columns"]
        require = _check_measures(given["evaluate"], columns, scores, complaints)
    _check_gates(given, wrong, require if "models" not in wrong else None, complaints)


def _check_gates(
    given: dict[str, dict[str, Any]],
    wrong: frozenset[str],
    require: Callable[[Gate], None] | None,
    complaints: Complaints,
) -> None:
    from fastrank_eval.report.gate_checks import check_gate
    from fastrank_eval.slices.spec_text import slices_asked

    by, baseline = given["slices"]["by"], given["models"]["baseline"]
    cut = [complaints.unless("slices", "by", spec, slices_asked) for spec in by]
    judged = None not in cut and "slices" not in wrong
    for key, texts in given["gates"].items():
        for condition in texts if isinstance(texts, tuple) else ():
            found = complaints.unless("gates", key, condition, gate)
            if found is None or require is None or not judged:
                continue
            before = len(complaints.found)
            complaints.unless("gates", key, condition, require, found)
            if len(complaints.found) == before:
                complaints.unless("gates", key, condition, check_gate, found, key, baseline, by)


def _check_source(source: dict[str, Any], complaints: Complaints) -> None:
    texts = [("path", path) for path in source["path"]]
    texts += [("where", source["where"])] if source["where"] else []
    failed = len(complaints.found)
    for key, value in texts:
        complaints.unless("source", key, value, check_dated)
    if len(complaints.found) > failed:
        return
    if source["where"]:
        from fastrank_eval.sources.selection import condition_of

        sample = dated(source["where"], dt.date(2026, 11, 19))
        complaints.unless("source", "where", source["where"], condition_of, sample)
    same = [braces for _, value in texts for braces in dates_in(value)]
    told = "every night would read the same rows"
    if same:
        told = f"several nights would read the same rows, as {same[0]} is the same for them"
    if not any(names_date(value) for _, value in texts):
        complaints.add(
            "source", "path", list(source["path"]),
            told + "; write {date} where the night's date stands, "
            "as in 'logs/day={date}/*.parquet', or in where: \"day = '{date}'\".",
        )  # fmt: skip


def _check_models(models: dict[str, Any], complaints: Complaints) -> None:
    scores, baseline = models["scores"], models["baseline"]
    if baseline is not None and baseline not in scores:
        why = f"is none of the models {', '.join(map(repr, scores))}.{near(baseline, scores)}"
        complaints.add("models", "baseline", baseline, why)
    elif baseline is not None and len(scores) < 2:
        why = "there is no other model to compare with it; add one to scores, or leave it out."
        complaints.add("models", "baseline", baseline, why)


def _check_columns(
    columns: dict[str, Any], scores: tuple[str, ...], complaints: Complaints
) -> None:
    for part in ("label", "weight"):
        if columns[part] in scores:
            why = "is a model too, whose scores it cannot be judged by; name another column."
            complaints.add("columns", part, columns[part], why)


def _check_options(given: dict[str, dict[str, Any]], complaints: Complaints) -> None:
    options = given["evaluate"]
    confidence = options["confidence"]
    if confidence >= 1:
        complaints.add("evaluate", "confidence", confidence, "is not below 1; write 0.95.")
    if options["ties"] == "item" and given["columns"]["item"] is None:
        why = "needs the column of item ids; add item to [columns]."
        complaints.add("evaluate", "ties", "item", why)
    undefined = options["undefined"]
    if undefined is not None:
        complaints.unless("evaluate", "undefined", undefined, undefined_policies)
    if options["memory"] is not None:
        from fastrank_eval.memory import bytes_for_a_run

        complaints.unless("evaluate", "memory", options["memory"], bytes_for_a_run)


def _check_measures(
    options: dict[str, Any],
    columns: dict[str, Any] | None,
    scores: tuple[str, ...],
    complaints: Complaints,
) -> Callable[[Gate], None] | None:
    """What refuses gates on what is not going to be computed; None if measures are wrong."""
    failed = len(complaints.found)
    for each in options["measures"]:
        complaints.unless("evaluate", "measures", each, measures_asked)
    profile, rate = options["profile"], options["sampling_rate"]
    if rate is not None:
        complaints.unless("evaluate", "sampling_rate", rate, sampling_rate_of)
    chosen = None
    if profile is not None:
        chosen = complaints.unless("evaluate", "profile", profile, profile_of)
    if len(complaints.found) > failed:
        return None
    asked = measures_asked(list(options["measures"]))
    measured = measures_in_force(asked, chosen, sampling_rate_of(rate))
    chosen_or_default = DEFAULTS if chosen is None else {**DEFAULTS, **chosen.choices}
    force = {name: options[name] or chosen_or_default[name] for name in ("ties", "weight_rows")}
    refuses_weights = columns is not None and columns["weight"] is not None
    refuses_weights = refuses_weights and force["weight_rows"] == "refuse"
    for m in measured:
        refusal = m.refuses(force["ties"])
        if refusal:
            complaints.add("evaluate", "measures", str(m), f"{refusal}.")
        if refuses_weights and not m.uses_row_weights:
            why = "is of rank positions, which weights of rows have no meaning for; leave it out, "
            why += "leave weight out of [columns], or write weight_rows = 'ignore'."
            complaints.add("evaluate", "measures", str(m), why)
        if columns is not None and m.needs_subtopics and columns["subtopics"] is None:
            why = "needs the column of subtopics; add subtopics to [columns]."
            complaints.add("evaluate", "measures", str(m), why)
    if len(complaints.found) > failed:
        return None
    texts, renamed = [str(m) for m in measured], names_asked(asked, measured)

    def require(each: Gate) -> None:
        each.require(texts, scores, renamed)

    return require
