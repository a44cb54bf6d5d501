"""Compile the kernels of an evaluation before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from fastrank_eval._lib.errors import ArgumentError, FastRankEvalError, OutputError
from fastrank_eval.apps.cli.options import (
    column_options,
    compute,
    convention_options,
    measure_options,
    option,
    quiet_option,
    reading_options,
    slice_options,
    sources_argument,
)
from fastrank_eval.apps.cli.shell import SectionedCommand, check_standard_output, emit

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from fastrank_eval._lib.threads import Progress
    from fastrank_eval.io.columns import Roles
    from fastrank_eval.results.result import Result

#: Rows that are read, and rows of large and small samples. Some kernels run only where 2**14 rows
#: have near scores; 2**17 rows have too few.
_ROWS, _FEW_ROWS = 1 << 18, 1 << 12
#: Large samples are several batches, so that batches share groups, and threads merge totals.
_BATCH_ROWS = 1 << 16
_THREADS = 2
_FEW_SCORES = 32
#: An odd number: its multiples look like hashes, and no two are equal.
_FACTOR = 0x9E3779B97F4A7C15


@click.command(
    cls=SectionedCommand,
    epilog="""\b
Examples:
  fastrank-eval warmup sample.parquet -g user_id -l click -s score_a \\
      -m GAUC,AUC
  FASTRANK_CACHE_DIR=/opt/kernels fastrank-eval warmup sample.parquet \\
      -g user_id -l click -s score_a,score_b --baseline score_a""",
)
@sources_argument
@column_options
@option(
    "Columns",
    "-b",
    "--baseline",
    metavar="COLUMN",
    help="Compile what 'compare' needs too, with this score as the baseline.",
)
@measure_options
@slice_options
@convention_options
@reading_options
@quiet_option()
def warmup(sources: tuple[str, ...], quiet: bool, **options: Any) -> None:
    """Compile and store the kernels that an evaluation needs.

    Types of columns, measures and other options choose the kernels. So evaluate the same columns of
    other files, with the same options: nothing is compiled then. Only the first rows of SOURCES are
    read; a small sample is enough. FASTRANK_CACHE_DIR names the folder; docs/how-to/kernels.md
    shows how to fill it in an image.
    """
    check_standard_output()
    from fastrank_eval._lib.jit import compilations, is_off, loads
    from fastrank_eval._lib.kernel_store import where_stored, why_not_stored
    from fastrank_eval.results.report import count_text

    _refuse("NUMBA_DISABLE_JIT: must not be set, got 1" if is_off() else why_not_stored())
    compute(_evaluate_samples, sources, quiet, **options)
    _refuse(why_not_stored())
    if not compilations.count + loads.count:
        _refuse("this implementation of Python has other objects than CPython")
    compiled = count_text(compilations.count, "kernel")
    emit(f"{compiled} compiled, {loads.count} loaded, {where_stored()}\n")


def _refuse(problem: str) -> None:
    if problem:
        raise OutputError(f"kernels are not stored: {problem}.")


def _evaluate_samples(
    sources: Sequence[str],
    progress: Callable[[Progress], None],
    baseline: str | None,
    **options: Any,
) -> Result:
    """Evaluate the first rows, and rows like them in many orders."""
    import numpy as np
    import pyarrow as pa

    from fastrank_eval.engine.options import Options
    from fastrank_eval.engine.run import prepare, run
    from fastrank_eval.results.evaluate import compare, evaluate
    from fastrank_eval.stats.scores import add_rows

    options |= {"threads": _THREADS, "limit": min(options["limit"] or _ROWS, _ROWS)}
    planned, reader = prepare([Options.read(sources, options)])
    plan, roles = planned.first, planned.first.roles
    with reader.completing_errors():
        batches = list(reader.batches())
    if not sum(batch.num_rows for batch in batches):
        raise ArgumentError("SOURCES: must have rows, got none; name a file with some.")
    rows = pa.Table.from_batches(batches).combine_chunks()
    # These describe SOURCES and choose rows.
    for name in ("where", "limit", "format"):
        del options[name]
    # Columns that nothing needs are not read.
    options |= {name: getattr(roles, name) for name in ("weight", "item", "subtopics")}
    # Computed scores are columns of the rows now.
    options |= {"group": roles.group or None, "cluster": roles.cluster or None}
    options |= {"score": roles.scores, "progress": progress}
    result: Result = evaluate(rows, **options)
    # Only AUC of many more rows calls this kernel.
    for counts in (np.uint8, np.uint16, np.uint32) if plan.pooled_states else ():
        add_rows(np.zeros(1, counts), np.zeros(1, np.uint32))
    for sample in _samples(rows, roles, plan.choices["order"]):
        # Such rows may be refused: a group has no click.
        with suppress(FastRankEvalError):
            run(sample, batch_rows=_BATCH_ROWS, **options, keep="")
            if sample.num_rows <= _FEW_ROWS:
                run(sample, batch_rows=_BATCH_ROWS, **options)
            if baseline is not None:
                compare(sample, baseline=baseline, **options)
    return result


def _samples(rows: pa.Table, roles: Roles, order: str) -> Iterator[pa.Table]:
    """Yield few and many rows like these in each order that is allowed.

    They have also few scores, near scores, and keys that look like hashes.
    """
    import numpy as np
    import pyarrow as pa

    from fastrank_eval.io.keys import encode_keys

    def with_numbers(name: str, numbers: np.ndarray) -> dict[str, Any]:
        kind = rows.schema.field(name).type
        return {name: pa.array(numbers.astype(kind.to_pandas_dtype()), kind)}

    random = np.random.default_rng(0)
    # Equal rows stay beside each other, so that the order stays, too.
    many = rows.take(np.arange(_ROWS) * rows.num_rows // _ROWS)
    for table in (rows.slice(0, _FEW_ROWS), many):
        if roles.item is not None:
            table = _with_distinct_items(table, roles.item)
        group = number = np.arange(table.num_rows)
        if roles.keys:
            group = encode_keys([table[name].combine_chunks() for name in roles.keys])[0]
        tied = table.take(number % _FEW_SCORES)
        changes: list[dict[str, Any]] = [{}, {name: tied[name] for name in roles.scores}]
        changes.append(with_numbers(roles.scores[0], 0.5 + number / (16 * _ROWS)))
        if len(roles.keys) == 1 and pa.types.is_integer(rows.schema.field(roles.keys[0]).type):
            changes.append(with_numbers(roles.keys[0], group.astype(np.uint64) * _FACTOR))
        columns = dict(zip(table.schema.names, table.columns, strict=True))
        for change in changes:
            sample = pa.table(columns | change)
            score = sample[roles.scores[0]].to_numpy()
            yield sample.take(np.lexsort((-score.astype(np.float64), group)))
            if order != "sorted":
                yield sample.take(np.lexsort((random.random(len(group)), group)))
            if order not in ("sorted", "grouped"):
                yield sample.take(random.permutation(len(group)))


def _with_distinct_items(rows: pa.Table, name: str) -> pa.Table:
    """Replace items by others of their type, which may share a group."""
    import numpy as np
    import pyarrow as pa

    from fastrank_eval._lib.arrow import decode_array
    from fastrank_eval.io.keys import KeyEncoder

    number = np.arange(rows.num_rows)
    kind = decode_array(rows[name].combine_chunks()).type
    encoder = KeyEncoder(name, kind)
    if encoder.text:
        items = pa.array(number.astype(str)).cast(kind)
    else:
        items = encoder.keys([number, *[np.zeros_like(number)] * 3])
    return rows.set_column(rows.schema.get_field_index(name), name, items)
