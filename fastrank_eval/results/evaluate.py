"""Evaluate models, parts of their rows, and differences from a baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastrank_eval._lib.arguments import check_one_label, named
from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.engine import DEFAULT_MEASURES
from fastrank_eval.engine.options import OPTIONS, Options, check_names, options_by_label
from fastrank_eval.engine.run import Evaluation, run_together
from fastrank_eval.measures import Measure
from fastrank_eval.measures.parser import requested_measures
from fastrank_eval.results.labels import for_labels
from fastrank_eval.results.result import Result, result_of

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow.compute as pc

    from fastrank_eval._lib.threads import Progress
    from fastrank_eval.engine.evaluator import RankedTable
    from fastrank_eval.engine.option_types import CompareOptions, PartialOptions
    from fastrank_eval.results.comparison import Comparison
    from fastrank_eval.results.result import State
    from fastrank_eval.slicing.spec import SliceSpec


@named
def partial(
    batches: object,
    *,
    keep: str | Sequence[str] = "",
    threads: int = 1,
    **options: Unpack[PartialOptions],
) -> State:
    """Evaluate one partition of the rows, and return its state.

    ``first.merge(*others).result()`` has the bits of one evaluation of all rows for any
    partitions, if no group and no cluster has rows in two of them. So an engine needs only a
    partition, shuffle or window by the group, or by the cluster. `State.to_bytes` and
    `State.from_bytes` carry states through it.

    Parameters
    ----------
    batches : object
        The rows of the partition, in any order: a table, batches, a list or an iterator of batches,
        a frame, or any other source of `evaluate`. An iterator needs at least one batch.
    group, label, score, measures
        As `evaluate` takes them; one label.
    keep : {"", "groups", "clusters"}
        ``"groups"`` keeps keys and values of every group. A merge then refuses groups and clusters
        with rows in two partitions. The states grow with the groups. ``"clusters"`` keeps sums by
        bucket, the hash of the cluster, for errors of merged states.
    threads : int
        By default one, because engines run one worker a core.
    **options
        Any other argument of `evaluate`; `baseline` to compare models. Slices by quantiles have
        different edges in each partition, and such states cannot be merged: give edges.

    Returns
    -------
    State

    Raises
    ------
    FastRankEvalError
        As `evaluate` does.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> def part(users, clicks, scores):
    ...     rows = {"user": users, "click": clicks, "pctr": scores}
    ...     return fe.partial(rows, group="user", label="click", score="pctr", measures="GAUC")
    >>> parts = [part([1, 1], [0, 1], [0.1, 0.4]), part([2, 2], [1, 0], [0.2, 0.3])]
    >>> parts[0].merge(*parts[1:]).result().value("GAUC")
    0.5
    """
    check_names("partial", options, partial)
    check_one_label(options.get("label"))
    kept = OPTIONS["keep"].read("keep", keep)
    return evaluate(batches, keep=("state", *kept), threads=threads, **options).state


@named
def evaluate(
    source: object,
    *,
    group: str | Sequence[str] | None = None,
    cluster: str | Sequence[str] | None = None,
    label: str | Sequence[str],
    score: str | Sequence[str] | Mapping[str, str],
    measures: str | Measure | Sequence[str | Measure] | Mapping[str, Any] = DEFAULT_MEASURES,
    weight: str | None = None,
    item: str | None = None,
    subtopics: str | None = None,
    profile: str | None = None,
    ties: str | None = None,
    undefined: str | Mapping[str, str] | None = None,
    groups: str | None = None,
    unretrieved: str | None = None,
    unjudged: str | None = None,
    nan: str = "error",
    null_groups: str = "error",
    weight_rows: str | None = None,
    score_type: str | None = None,
    sampling_rate: float | None = None,
    confidence: float = 0.95,
    by: str | SliceSpec | Sequence[str | SliceSpec] | None = None,
    min_groups: int = 1,
    order: str = "auto",
    threads: int | None = None,
    keep: str | Sequence[str] | None = None,
    baseline: str | None = None,
    where: str | pc.Expression | None = None,
    limit: int | None = None,
    memory: str | int | None = None,
    format: str | None = None,  # noqa: A002
    progress: Callable[[Progress], object] | None = None,
) -> Result:
    """Rank the rows of every group, and average measures over groups.

    Parameters
    ----------
    source : object
        One row per shown or judged item: a pyarrow Table, RecordBatch, RecordBatchReader or
        Dataset, a path, folder, glob or list of them (Parquet, Arrow IPC, CSV), anything with
        ``__arrow_c_stream__`` (pandas, polars, DuckDB), or a mapping of one-dimensional arrays. A
        file under two names, links included, is an error: its rows would count twice. With one row
        a request, label and scores are columns of lists, equally long in a row; other columns are
        lists too or one value. Each element counts as a row.
    group : str or sequence of str, optional
        Key columns of any integer, string, binary, dictionary, date, timestamp, decimal or bool
        type, or whole numbers of a float type. A null is an error: see `null_groups`. In CSV and
        TSV files they are text, exactly as written: ``007`` is not ``7``. Measures of all rows
        (AUC, LogLoss, PPV ...) do not need it; without it and without `cluster` no value has a
        standard error. If no measure, no state and no other argument needs groups, they are
        neither read nor counted: `Meta.groups` is 0.
    cluster : str or sequence of str, optional
        The independent unit, such as the user of queries: columns of the types of `group`. Each
        group lies in one cluster; a group with rows in two is an error, and so is a null (see
        `null_groups`). Errors, intervals and tests count clusters; values, coverage, wins and
        losses count groups, as without it. By default each group is a cluster. Without `group`, it
        is the group of measures of all rows.
    label : str or sequence of str
        Bool, integer grade or finite float gain. A null means unjudged: see `unjudged`; NaN is an
        error: see `nan`. A list of labels is evaluated in one reading of the rows, each with the
        bits of a run of its own.
    score : str, sequence of str, or mapping of str to str
        float16, float32, float64 or integer; higher ranks first; one column a model. A null is an
        error: see `unretrieved`. So is NaN: see `nan`. A mapping computes
        models from columns, by name: ``{"pctr": "pctr", "ctcvr": "pctr * pcvr"}``. Expressions have
        columns (bare or in double quotes), numbers, ``+ - * /`` and parentheses. They are computed
        in float64, null where a column is null. An expression of one column is that column. The
        name of a computed score must not be a column. Other arguments, such as `where`, `by` and
        `weight`, read columns of the data.
    measures : str, Measure, sequence of them, or mapping
        ``"GAUC,AUC,nDCG@10"`` or values such as ``nDCG @ 10``. By default GAUC, AUC, nDCG@10, AP,
        RR, P@10 and R@10. Reports show the names that are given here, such as ``"MAP"`` for AP.
        With a list of labels, a mapping from label to measures gives each label its own.
    weight : str, optional
        Row weight, 0 or from 1e-30 to 1e30: of the pairs of GAUC and of measures of all rows (AUC,
        LogLoss, PPV ...). Measures of rank positions have no weighted form: see `weight_rows`.
    item : str, optional
        Item id, for ``ties="item"``. An item twice in a group is an error, under all `ties`. In CSV
        and TSV files it is text, as `group` is.
    subtopics : str, optional
        The subtopics of each row, for measures of diversity: a list of whole numbers from 0 to 63,
        or a single one. Null and the empty list mean no subtopic. These measures read only the
        subtopics of a row, not its label; `unjudged` reads only the label.
    profile : str, optional
        The conventions of another tool: ``"trec_eval_9"``, ``"catboost"`` ... (see `PROFILES`). It
        sets the arguments below, and the options of measures, that the caller does not set.
    ties : {"expected", "input", "item", "best", "worst"}
        Tied scores: the exact mean over all their orders, the order of the input, item id
        descending, or the best or worst case. AUC counts a tied pair one half in each.
    undefined : {"skip", "zero", "one", "error"} or mapping
        Value of a group for which a measure is undefined. ``"skip,nDCG=one"``, or a mapping of
        measures with ``"*"`` for the others, names single measures.
    groups : {"all", "with_relevant"}
        ``"with_relevant"`` leaves out groups without a row of grade >= 1, for every measure but
        those that pool all rows (AUC).
    unretrieved : {"error", "allow", "drop"}
        Rows without a score. ``"drop"`` is for a fault of scoring: a row that one model lacks
        leaves for every model. ``"allow"`` is for lists that a system returned: the row is not in
        the list. It counts in R and in the ideal. In AUC, GAUC, curves and decisions it is below
        every score, tied with the other such rows, and never predicted positive. Measures of
        predictions (LogLoss, PCOC, MSE ...) refuse it.
    unjudged : {"error", "allow", "drop"}
        Rows without a label: ``"allow"`` lets them take a rank without gain, ``"drop"`` leaves them
        out, so that later rows move up. `Meta.conventions` counts rows that an option leaves out,
        by reason, as ``rows_left_out``: ``{"unjudged": {"rows": 12}}``, and rows that stay but are
        read in another way as ``rows_noted``. Reports note them.
    nan : {"error", "null"}
        NaN in scores, labels and weights: ``"null"`` reads it as null and counts it. Then
        `unretrieved` and `unjudged` apply; a null weight is an error. In pandas columns NaN is
        null.
    null_groups : {"error", "drop"}
        Rows without a group key, null or NaN: ``"drop"`` leaves them out, and counts them as
        ``null_group``.
    weight_rows : {"refuse", "ignore"}
        What measures of rank positions, which have no weighted form, do with `weight`.
    score_type : {"given", "float32"}
        ``"float32"`` rounds scores before they are compared.
    sampling_rate : float
        In ]0, 1]: the share of the negatives that the models were trained on. Measures of
        probability replace p by p / (p + (1 - p) / rate), unless a measure has its own rate. No
        other measure changes.
    confidence : float
        Confidence of the intervals of the values, in ]0, 1[. Clusters, by default groups, are
        independent.
    by : str, SliceSpec or sequence of them
        Slices of the rows that are evaluated too, in the same pass: ``"slot"`` for each value of a
        column, ``"slot,country"`` for each combination, ``"age:18,25,35"`` between edges,
        ``"age:quantile5"`` in bins of equally many rows (one more pass over that column),
        ``"age:width10"``, ``"ts:day"`` (hour, week, month, hour_of_day, day_of_week),
        ``"@rows:1,5,20"`` and ``"@positives:0,1,5"`` by the number of rows, or of rows of grade
        >= 1, of a group. Null is a slice of its own. If a group has rows in several slices, its
        rows in each slice are a group of that slice.
    min_groups : int
        Leave out slices with fewer groups; `Meta.conventions` has the number of these slices.
    order : {"auto", "sorted", "grouped", "scattered"}
        ``"sorted"``: groups contiguous and scores descending inside them, verified. ``"grouped"``:
        groups contiguous, verified. ``"scattered"``: rows are gathered, in memory if they fit.
        ``"auto"`` detects the order.
    threads : int, optional
        Default: the processors this process may use. The result has the same bits for any number.
    keep : str or sequence of str, optional
        What the result keeps, besides the values of all rows and slices: some of these words, as
        in ``"values,state"``. ``""`` keeps nothing, which bounds memory for many groups. By default
        ``"values"`` if rows are grouped.

        * ``"values"``: the values of every group, for `Result.per_group`. It groups rows that no
          measure groups, for `Meta.groups` and for gates that read a number of groups.
        * ``"scores"``: every distinct score with its positive and other rows, for `Result.curve`.
          AUC must be among the measures; with ``AUC(rel=2)`` positives are the rows of grade 2 or
          more.
        * ``"state"``: the sums, for `Result.state`, which can be saved and merged with states of
          other rows.
        * ``"groups"``: keys and values of every group, in the state too. A merge then detects
          groups that have rows in two states. The file of the state grows with the groups.
        * ``"clusters"``: in the state also sums by bucket, the hash of the cluster (by default of
          the group) modulo 1,024, without keys. Errors of merged states then count a user once who
          has rows in several of them. About 16 KB for a measure, model and slice.
    baseline : str, optional
        The score column that every other is compared with. Result and state keep the paired sums
        of both, for `Result.compare` and `State.compare`. No value depends on it, but AUC gets
        ``se="clustered"``, which keeps the score of every row, unless `se`, `bins` or `max_fpr` is
        given.
    where : str or pyarrow.compute.Expression, optional
        Evaluate only the rows for which this is true: ``"day = '2026-11-19' and slot in (1, 2)"``.
        Comparisons, ``in``, ``between``, ``is null``, ``and``, ``or``, ``not``, parentheses; text
        in single quotes, column names bare or in double quotes. A row for which it is null is
        left out. Literals take the type of their column. With a text, files and Parquet row groups
        without a matching row are not read.
    limit : int, optional
        Read only the first rows (that `where` selects), for a quick look. The last groups may be
        incomplete.
    memory : str or int, optional
        The memory of the process, as ``"4GB"`` or bytes; by default a share of the free memory.
        Scattered rows that do not fit are sorted in the folder of temporary files (``TMPDIR``),
        which needs DuckDB (extra ``[outofcore]``). A run needs 0.5 to 1 GB in any case. The result
        has the same bits.
    format : {"parquet", "arrow", "csv", "tsv"}, optional
        Format of the files, if their names do not show it.
    progress : callable, optional
        Called with a `Progress`, at most some ten times a second, by the thread that called
        `evaluate`. An exception in it ends the run.

    Returns
    -------
    Result
        Of a list of labels, its records have a label, and ``result["order"]`` is the part of one.

    Raises
    ------
    FastRankEvalError
        One of its subclasses, with the place of the error and the remedy: `ArgumentError`,
        `MeasureError`, `SourceError`, `ColumnError`, `OrderError`, `UndefinedError`.

    Examples
    --------
    >>> import fastrank_eval as fr
    >>> log = {"user": [1, 1, 2, 2, 2], "click": [0, 1, 1, 0, 0], "pctr": [0.1, 0.4, 0.2, 0.3, 0.1]}
    >>> result = fr.evaluate(log, group="user", label="click", score="pctr", measures="GAUC,RR")
    >>> result.value("GAUC")
    0.7
    >>> log["order"] = [0, 1, 0, 0, 0]
    >>> results = fr.evaluate(log, group="user", label=["click", "order"], score="pctr",
    ...                       measures={"click": "GAUC", "order": "GAUC,RR"})
    >>> results["order"].value("GAUC")
    1.0
    """
    given = locals()
    return evaluate_options(Options.read(given.pop("source"), given))


@named
def compare(
    source: object,
    *,
    test: str = "clustered_t",
    correction: str = "holm",
    replicates: int = 10_000,
    seed: int = 0,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Evaluate models in one pass and test which are better than a baseline.

    It is ``evaluate(..., baseline=...).compare()``.

    The difference of a measure has the paired standard error of two ratios of sums over groups,
    ``sqrt(U / (U - 1) * sum of (e_b - e_a)^2)``. U is the number of groups that either model uses;
    each has ``e = w (A - mean) / sum of w``. A group that is hard for both models
    adds little to it.

    Parameters
    ----------
    source : object
        As in `evaluate`.
    label, measures
        As in `evaluate`, with two score columns or more. A list of labels is compared in one
        reading of the rows, each with the bits of a call of its own. A test of groups leaves AUC
        out of the default measures.
    baseline : str
        The score column that every other is compared with.
    test : str
        * ``"clustered_t"``: the difference over its standard error, with groups as clusters, by
          Student's t with Satterthwaite's degrees of freedom: at most one less than groups;
        * ``"clustered_z"``: the same by the normal distribution;
        * ``"paired_t"``, ``"wilcoxon"``, ``"sign"``: tests of the differences of groups that both
          models use; each group counts once, its weight is ignored;
        * ``"randomisation"``: tests the measure itself; models are swapped in random groups;
        * ``"bootstrap"``: tests the measure itself over resampled groups, with its own standard
          error and interval (percentiles). It needs many groups; of few, no interval.

        All are two-sided. All but the first two need a value for each group, which measures of all
        rows together do not have. Slices are tested by the first. Where all groups have the same
        difference there is no error and no interval, and the first three tests have no p-value; the
        others count changes of sign. Models that are equal in every group have the
        difference 0, the interval [0, 0] and the p-value 1 under every test.
    correction : {"holm", "bh", "none"}
        Holm, or Benjamini and Hochberg. The p-values of every measure and candidate are corrected
        together; for slices, those of every slice of a slicing, measure and candidate.
    replicates, seed : int
        For randomisation and bootstrap. The result has the same bits for any order of the rows and
        number of threads.
    **options
        Any other argument of `evaluate`: `group`, which is required (for measures of all rows
        `cluster` is enough), `score` with two columns or more ... With `cluster` every test takes
        clusters in place of groups: the difference of one is the weighted mean over its groups that
        both models use; it is swapped, or drawn, whole. `wins`, `ties` and `losses` count groups.
        `confidence` is the level of intervals; a difference is shown where the adjusted p-value is
        at most ``1 - confidence``. ``keep=""`` keeps no values of groups for
        `Comparison.largest_changes` and `Comparison.per_group`; that bounds memory for any number
        of groups, unless AUC with a clustered error is a measure.

    Returns
    -------
    Comparison
        Of a list of labels, its records have a label, and ``comparison["order"]`` is the part of
        one.

    Raises
    ------
    FastRankEvalError
        As `evaluate` does; `ArgumentError` also if a test cannot be applied to a measure.

    References
    ----------
    Deng, Knoblich & Lu (2018), doi:10.1145/3219819.3219919; Holm (1979); Benjamini & Hochberg
    (1995), doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> import fastrank_eval as fe
    >>> log = {"user": [1, 1, 2, 2, 3, 3], "click": [0, 1, 1, 0, 1, 0],
    ...        "old": [0.1, 0.4, 0.2, 0.3, 0.5, 0.6], "new": [0.1, 0.4, 0.4, 0.3, 0.5, 0.6]}
    >>> comparison = fe.compare(log, group="user", label="click", score=["old", "new"],
    ...                         baseline="old", measures="GAUC,RR")
    >>> value = comparison.find("GAUC")
    >>> round(value.delta, 4), value.wins, value.ties, value.losses
    (0.3333, 1, 2, 0)
    """
    from fastrank_eval.results import compare_tests

    check_names("compare", options, compare, needs=("baseline", unit_needed(options)))
    given: dict[str, Any] = {
        "test": test,
        "correction": correction,
        "replicates": replicates,
        "seed": seed,
    }
    if options["baseline"] is None:
        raise ArgumentError("baseline: must be one of the score columns, got None; name one.")
    read = Options.read(source, options)
    others = ", ".join(sorted((read.keep or frozenset()) - {"values"}))
    if others:
        raise ArgumentError(
            f"keep: must be 'values' or '' for compare(), got {others}; leave them out."
        )
    if read.keep is not None and not read.keep:
        compare_tests.refuse_without_values(test)
    chosen = compare_tests.choices_of(**given).test
    if isinstance(read.measures, str) and read.measures == DEFAULT_MEASURES:
        read = read.replace(measures=compare_tests.default_measures(chosen))
    for for_label in options_by_label(read).values():
        compare_tests.refuse_pooled(chosen, requested_measures(for_label.measures))
    return evaluate_options(read).compare(**given, threads=read.threads)


def unit_needed(options: Mapping[str, Any]) -> str:
    """Name the option that must be given, `group` or `cluster`."""
    return "group" if options.get("cluster") is None else "cluster"


def evaluate_options(options: Options, ranked: RankedTable | None = None) -> Result:
    """Evaluate as `evaluate` does, or what `run_together` takes for the rows."""
    by_label = options_by_label(options)
    evaluations = run_together(list(by_label.values()), ranked)
    results = {
        name: _result(for_label, evaluation)
        for (name, for_label), evaluation in zip(by_label.items(), evaluations, strict=True)
    }
    return for_labels(Result, options.label, results, per_group=None)


def _result(options: Options, evaluation: Evaluation) -> Result:
    state = None
    if options.keeps("state"):
        from fastrank_eval.results.state import state_of_run

        state = state_of_run(evaluation, options.source, options.keeps("groups"))
    return result_of(evaluation, options.keeps("scores"), state)
