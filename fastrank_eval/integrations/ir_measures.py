"""Compute measures of ir_measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fastrank_eval._lib.arrow import as_array, column_with_nulls
from fastrank_eval._lib.dataclass import dataclass
from fastrank_eval._lib.errors import ArgumentError, MeasureError
from fastrank_eval.engine.conventions import PROFILES, with_options
from fastrank_eval.integrations.trec.join import join
from fastrank_eval.integrations.trec.tables import read_qrels, read_run
from fastrank_eval.measures import (
    MEASURES,
    RBP,
    F,
    IPrec,
    Measure,
    NumRelRet,
    NumRet,
    P,
    R,
    RelP,
    bpref,
    nDCG,
)
from fastrank_eval.results.evaluate import evaluate


@dataclass(frozen=True)
class EquivalentMeasure:
    """A measure here that equals one of ir_measures, and its rows and grades.

    Parameters
    ----------
    measure : Measure
    judged_only : bool
        Leave out unjudged documents; later ones move up.
    regrade : tuple or None
        Scale of the grades: ``("gains", grade, gain, ...)`` replaces grades, ``("share", least,
        most)`` maps [least, most] to [0, 1].
    """

    measure: Measure
    judged_only: bool = False
    regrade: tuple[Any, ...] | None = None

    @property
    def rows(self) -> tuple[Any, ...]:
        """Key of rows and grades; equal keys are evaluated together."""
        return self.judged_only, self.regrade

    def new_grades(self, grades: np.ndarray) -> np.ndarray:
        """Convert distinct grades to the scale."""
        values = grades.astype(np.float64)
        if self.regrade is None:
            return values
        kind, *numbers = self.regrade
        if kind == "share":
            least, most = numbers
            return (np.clip(np.maximum(values, 0), least, most) - least) / (most - least)
        for grade, gain in zip(numbers[::2], numbers[1::2], strict=True):
            values[grades == grade] = gain
        return values


def equivalent(measure: Any) -> EquivalentMeasure | None:
    """Convert a measure of ir_measures.

    Parameters
    ----------
    measure : ir_measures.Measure
        A measure with valid parameters.

    Returns
    -------
    EquivalentMeasure or None
        None if no measure here has the same value.
    """
    options = {
        name: measure.params.get(name, param.default)
        for name, param in measure.SUPPORTED_PARAMS.items()
    }
    # ir_measures marks a parameter without a value by a bare object.
    options = {name: value for name, value in options.items() if type(value) is not object}
    cutoff = options.pop("cutoff", None)
    judged_only = bool(options.pop("judged_only", False))
    convert = _MEASURES.get(measure.NAME)
    if convert is None:
        return None
    try:
        result = convert(options)
        if result is None:
            return None
        ours = result.measure if cutoff is None else result.measure @ cutoff
        ours.check_complete()
    except MeasureError:
        return None
    return EquivalentMeasure(ours, judged_only, result.regrade)


def _differs(measure: Any) -> bool:
    """Return whether another provider ranks ties otherwise, or rounds."""
    options = measure.params
    return (
        measure.NAME in _OTHERWISE
        or (measure.NAME == "RR" and "cutoff" in options)
        or options.get("dcg") == "exp-log2"
    )


def _same(ours: Measure) -> Callable[[dict[str, Any]], EquivalentMeasure | None]:
    return lambda options: EquivalentMeasure(ours(**options))


def _user_model(ours: Measure) -> Callable[[dict[str, Any]], EquivalentMeasure | None]:
    def convert(options: dict[str, Any]) -> EquivalentMeasure | None:
        least, most = options.pop("min_rel"), options.pop("max_rel", None)
        options.pop("dcg", None)
        if most is None or not least < most:
            return None
        return EquivalentMeasure(ours(gain="label", **options), regrade=("share", least, most))

    return convert


def _ndcg(options: dict[str, Any]) -> EquivalentMeasure | None:
    gains: Mapping[Any, Any] | None = options.pop("gains", None)
    if options.pop("dcg") == "exp-log2":
        return None if gains is not None else EquivalentMeasure(nDCG)
    if gains is None:
        return EquivalentMeasure(nDCG(gain="linear"))
    numbers = [number for pair in sorted(gains.items()) for number in pair]
    if not all(isinstance(number, int | np.integer) for number in numbers):
        return None
    return EquivalentMeasure(nDCG(gain="linear"), regrade=("gains", *numbers))


def _rbp(options: dict[str, Any]) -> EquivalentMeasure | None:
    if "rel" not in options:
        return None
    return EquivalentMeasure(RBP(**options, **PROFILES["ir_measures"].options["RBP"]))


#: Measures of the same name and options, and user models of the same name.
_SAME = "AP ERR Judged NumRel P R RR Rprec SetAP Success infAP"
_USER_MODELS = "BPM INSQ INST NERR10 NERR11 NERR8 NERR9 SDCG"

_MEASURES: Mapping[str, Callable[[dict[str, Any]], EquivalentMeasure | None]] = {
    **{name: _same(MEASURES[name]) for name in _SAME.split()},
    **{
        name: _user_model(
            with_options(MEASURES[name], PROFILES["ir_measures"].options.get(name, {}))
        )
        for name in _USER_MODELS.split()
    },
    "Bpref": _same(bpref),
    "IPrec": _same(IPrec(rounding="up")),
    "NumRet": lambda options: EquivalentMeasure(NumRelRet(**options) if options else NumRet),
    "RBP": _rbp,
    # ir_measures passes beta to trec_eval, which reads it as the square of beta.
    "SetF": lambda options: EquivalentMeasure(
        F(alpha=1 / (1 + options["beta"]), rel=options["rel"])
    ),
    "SetP": lambda options: EquivalentMeasure((RelP if options.pop("relative") else P)(**options)),
    "SetR": _same(R),
    "nDCG": _ndcg,
}

#: Measures that other providers rank or round otherwise.
_OTHERWISE = ("Judged", "RBP", "ERR", *_USER_MODELS.split())

#: How the tables of ir_measures are read.
_IDS = {"query": "query_id", "doc": "doc_id", "duplicates": "last"}
#: Name of the provider in the registry of ir_measures.
NAME = "fastrank_eval"


def register(*, first: bool = True) -> Any:
    """Let ir_measures evaluate with this engine.

    ``ir_measures.calc_aggregate``, ``iter_calc``, ``calc`` and ``evaluator`` ask this engine first,
    for measures that have the same numbers here; no number changes. It is asked last for measures
    that others rank or round otherwise: tied documents have ascending ids there in RR@k and
    Judged, and the order of the run in RBP, SDCG, BPM, INSQ, INST and NERR8 to NERR11; ERR and
    ``nDCG(dcg='exp-log2')`` have five decimals.

    By its name, ``ir_measures.providers.registry["fastrank_eval"]``, it computes all of these under
    trec_eval's conventions (profile ``"ir_measures"``): scores are compared as float32, and tied
    documents are ordered by descending id. It does not have the diversity measures, Accuracy,
    Compat, RBP without `rel`, and NumQ.

    Parameters
    ----------
    first : bool
        Whether ir_measures asks this engine. Otherwise it is used only by its name.

    Returns
    -------
    ir_measures.Provider
        The provider of that name, with `supports`, `evaluator`, `iter_calc`, `calc` and
        `calc_aggregate`.

    Raises
    ------
    ArgumentError
        If ir_measures is not installed.

    References
    ----------
    MacAvaney, Macdonald & Ounis (2022), doi:10.1007/978-3-030-99739-7_38
    """
    try:
        import ir_measures
    except ImportError as error:
        raise ArgumentError(
            "ir_measures is not installed: pip install 'fastrank_eval[ir_measures]'."
        ) from error
    unregister()
    provider, exact = _provider(), _provider(exact=True)
    ir_measures.providers.register(provider)
    if first:
        pipeline = ir_measures.DefaultPipeline.providers
        pipeline[:] = [exact, *pipeline, provider]
    return provider


def unregister() -> None:
    """Remove the provider from ir_measures, if it is registered."""
    import ir_measures

    ir_measures.providers.registry.pop(NAME, None)
    pipeline = ir_measures.DefaultPipeline.providers
    pipeline[:] = [provider for provider in pipeline if provider.NAME != NAME]


def _provider(exact: bool = False) -> Any:
    """Make a provider; its base classes need ir_measures, an optional library.

    An `exact` one has only measures whose numbers are those of other providers.
    """
    import ir_measures
    from ir_measures import providers

    class Evaluator(providers.Evaluator):  # type: ignore[misc]
        """Judgements, read once, for any number of runs."""

        def __init__(self, measures: Iterable[Any], qrels: object) -> None:
            measures = list(measures)
            self._measures_by_rows: dict[tuple[Any, ...], list[tuple[Any, EquivalentMeasure]]] = {}
            for measure in measures:
                equal = equivalent(measure)
                if equal is None:
                    raise ValueError(f"unsupported measure {measure}")
                self._measures_by_rows.setdefault(equal.rows, []).append((measure, equal))
            self._table = read_qrels(_pairs(qrels, "relevance"), grade="relevance", **_IDS)
            queries: set[str] = set(self._table["query"].to_pylist())
            if isinstance(qrels, Mapping):
                queries.update(map(str, qrels))
            super().__init__(measures, queries)

        def _iter_calc(self, run: object) -> Iterator[Any]:
            joined = join(self._table, read_run(_pairs(run, "score"), score="score", **_IDS)).table
            for measures in self._measures_by_rows.values():
                for query, measure, value in _values(joined, measures):
                    yield ir_measures.Metric(query_id=query, measure=measure, value=value)

    class Provider(providers.Provider):  # type: ignore[misc]
        """fastrank_eval."""

        NAME = NAME

        def supports(self, measure: Any) -> bool:
            measure.validate_params()
            return equivalent(measure) is not None and not (exact and _differs(measure))

        def _evaluator(self, measures: Iterable[Any], qrels: object) -> Evaluator:
            return Evaluator(measures, qrels)

    return Provider()


def _values(
    joined: pa.Table, measures: list[tuple[Any, EquivalentMeasure]]
) -> Iterator[tuple[str, Any, float]]:
    """Yield values of measures with the same rows and grades."""
    import pyarrow.compute as pc

    rows = measures[0][1]
    if rows.regrade is not None:
        joined = joined.set_column(
            joined.schema.get_field_index("grade"), "grade", _regrade(joined["grade"], rows)
        )
    if rows.judged_only:
        # trec_eval takes a negative grade as unjudged: the document is left out.
        joined = joined.filter(pc.fill_null(pc.greater_equal(joined["grade"], 0), True))
    if not joined.num_rows:
        return
    ours: list[Measure] = [equal.measure for _, equal in measures]
    choices: dict[str, Any] = dict(PROFILES["ir_measures"].choices)
    if rows.judged_only:
        choices["unjudged"] = "drop"
    result = evaluate(
        joined,
        group="query",
        item="doc",
        label="grade",
        score="score",
        measures=ours,
        order="grouped",
        **choices,
    )
    queries = result.per_group["query"].to_pylist()
    for measure, equal in measures:
        # An undefined value becomes the measure's default, as in ir_measures.
        for query, value in zip(queries, result[equal.measure].tolist(), strict=True):
            yield query, measure, measure.DEFAULT if value != value else value


def _regrade(grades: pa.ChunkedArray, rows: EquivalentMeasure) -> pa.Array:
    """Convert grades to a scale; null stays null."""
    import pyarrow.compute as pc

    is_null = as_array(grades.is_null().combine_chunks()).view(np.bool_)
    filled = as_array(pc.fill_null(grades, 0).combine_chunks())
    distinct, inverse = np.unique(filled, return_inverse=True)
    return column_with_nulls(rows.new_grades(distinct)[inverse], is_null)


def _pairs(source: Any, number: str) -> object:
    """Convert runs and judgements of ir_measures to a source of `read_run`."""
    if hasattr(source, "itertuples"):
        return source[["query_id", "doc_id", number]]
    if isinstance(source, Mapping):
        return source
    nested: dict[Any, dict[Any, Any]] = {}
    for item in source:
        nested.setdefault(item.query_id, {})[item.doc_id] = getattr(item, number)
    return nested
