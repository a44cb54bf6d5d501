"""An opened source, and the check that it has the columns asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from fastrank_eval.errors import ColumnError, SourceError, near
from fastrank_eval.sources.spelling import Spelling
from fastrank_eval.sources.unread import Part, read_parts
from fastrank_eval.typed_arguments import is_of, shown, typed

__all__ = ["Source", "refuse_text", "require_columns", "selected_row"]


class Source:
    """An ordered stream of record batches, and what is known before reading it.

    Attributes
    ----------
    name : str
        What messages call it: a path, or the type of the object.
    schema : pyarrow.Schema
        Every column that can be asked for.
    rows : int or None
        Rows, where known without reading them.
    rereadable : bool
        Whether `batches` may be called more than once.
    locate : callable
        Where a row stands that has been read, "row 3 of 'b.csv'"; "" where the name tells it all.
    edges : mapping of str to pyarrow.Array or None
        Edges of quantiles by the text of their part (``"age:quantile5"``), where they are known
        before a row is read: those of a part of the rows would be other ones.
    as_text : callable or None
        Opens the source again where a file has no types of its own (CSV): with some columns as
        text, exactly as written, and others so where they write numbers in several ways. None where
        every column has a type.
    spelling : Spelling
        How text files write the columns that tell rows apart.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        read: Callable[[Sequence[str]], Iterator[Part]],
        *,
        rows: int | None = None,
        rereadable: bool = True,
        locate: Callable[[int], str] = lambda row: "",
        edges: Mapping[str, pa.Array] | None = None,
        as_text: Callable[[frozenset[str], frozenset[str]], Source] | None = None,
        spelling: Spelling | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self.rows = rows
        self.rereadable = rereadable
        self.locate = locate
        self.edges = edges
        self.as_text = as_text
        self.spelling = spelling or Spelling()
        self._read = read
        self._spent = False

    def __repr__(self) -> str:
        rows = "" if self.rows is None else f", {self.rows} rows"
        return f"<Source {self.name}: {len(self.schema)} columns{rows}>"

    @typed
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read the rows in their order, as batches of just these columns.

        Parameters
        ----------
        columns : sequence of str
            Distinct names; the batches carry them in this order.

        Returns
        -------
        iterator of pyarrow.RecordBatch
            Never of zero rows. In-memory data comes in its own chunks, without a copy.

        Raises
        ------
        ColumnError, SourceError
            As `parts` does.
        """
        return (batch for batch in read_parts(self.parts(columns)) if batch.num_rows)

    @typed
    def parts(self, columns: Sequence[str]) -> Iterator[Part]:
        """The rows in their order, some of them not read yet.

        Parameters
        ----------
        columns : sequence of str
            Distinct names; the batches carry them in this order.

        Returns
        -------
        iterator of pyarrow.RecordBatch or Unread
            Never of zero rows.

        Raises
        ------
        ColumnError
            At the call, if a column is missing or its name occurs twice.
        SourceError
            At the call, if the source was read before and cannot be read again, or if its files
            disagree on a column; while reading, naming the file that cannot be read.
        """
        require_columns(self.schema, columns, source=self.name)
        if self._spent:
            raise SourceError(
                f"{self.name} can be read only once and was read before. "
                "Pass a table, a file or a fresh reader."
            )
        rows = self._read(columns)
        self._spent = not self.rereadable
        return (part for part in rows if part.num_rows)


def selected_row(row: int) -> str:
    """Say what the number of a row counts, where a condition selects rows."""
    return f"row {row:,} of the rows that where selects"


def refuse_text(source: Source, name: str, argument: str) -> None:
    """Refuse text as numbers where only its part makes it text.

    Parameters
    ----------
    source : Source
    name : str
        Of the column.
    argument : str
        What needs numbers; it begins the message.

    Raises
    ------
    ColumnError
    """
    if name in source.spelling.texts:
        raise ColumnError(
            f"{argument}: must be a column of numbers, got {name!r}, which is text: in CSV and TSV "
            "files group and item columns are text, and so are columns of slices, fields, classes "
            "and texts of where that write equal numbers in several ways (007 and 7); write the "
            "numbers to a column of their own, or the file as Parquet."
        )


def require_columns(
    schema: pa.Schema,
    names: Iterable[str],
    *,
    role: str | None = None,
    source: str | None = None,
) -> None:
    """Check that each column exists exactly once.

    Parameters
    ----------
    schema : pyarrow.Schema
    names : iterable of str
    role : str, optional
        The option that asked for the columns, such as ``"label"``; it begins the message.
    source : str, optional
        Name of the source, for the message.

    Raises
    ------
    ColumnError
        Names the first column that is missing, and the nearest one that is not.

    Examples
    --------
    >>> schema = pa.schema([("user", pa.int64()), ("label", pa.int8())])
    >>> require_columns(schema, ["lable"], role="label")
    Traceback (most recent call last):
    fastrank_eval.errors.ColumnError: label: no column 'lable'. Did you mean 'label'? \
Columns: user, label.
    """
    prefix = f"{role}: " if role else ""
    where = f" in {source}" if source else ""
    for name in names:
        if not is_of(name, "str"):
            raise ColumnError(f"{prefix}must be names of columns, got {shown(name)}; pass text.")
        times = len(schema.get_all_field_indices(name))
        if times > 1:
            raise ColumnError(
                f"{prefix}column {name!r} occurs {times} times{where}. Rename all but one."
            )
        if times == 0:
            listed = ", ".join(schema.names[:20]) or "none"
            more = f", and {len(schema) - 20} more" if len(schema) > 20 else ""
            raise ColumnError(
                f"{prefix}no column {name!r}{where}.{near(name, schema.names)} "
                f"Columns: {listed}{more}."
            )
