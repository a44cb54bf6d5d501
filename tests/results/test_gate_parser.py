"""Gates as texts: what they read as, what is refused and where, that a tree's text is the tree."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval._lib.lexer import Operation
from fastrank_eval.measures import measure, registry
from fastrank_eval.measures.base import aliases
from fastrank_eval.measures.parser import names_measure, text_with_options
from fastrank_eval.results.gates import (
    COUNTS,
    FIELDS,
    KEYWORDS,
    Count,
    Node,
    Number,
    Term,
    parse,
    terms_of,
)

pytestmark = pytest.mark.no_kernels

GAUC, AUC = Term("GAUC"), Term("AUC")


def tree_of(node: Any) -> Node:
    """A tree from tuples of an operator and its parts, and numbers."""
    if isinstance(node, tuple):
        return Operation(node[0], tuple(map(tree_of, node[1:])))
    return Number(node) if isinstance(node, int | float) else node


def of_slice(part: str | None) -> Term:
    return Term("AUC", slice=part)


@pytest.mark.parametrize(
    "text,tree",
    [
        ("GAUC < 0.6", ("<", GAUC, 0.6)),
        ("gauc VALUE<.6", ("<", GAUC, 0.6)),
        ("GAUC delta_ci_low < -0.001", ("<", Term("GAUC", "delta_ci_low"), ("-", 0.001))),
        ("0.6 >= GAUC", (">=", 0.6, GAUC)),
        ("GAUC == 1", ("=", GAUC, 1)),
        ("GAUC <> 1", ("!=", GAUC, 1)),
        ("rows < 1E+3", ("<", Count("rows"), 1000)),
        ("pctr:AUC > 1.", (">", Term("AUC", score="pctr"), 1)),
        ('"odd ""n""" : AUC > 1', (">", Term("AUC", score='odd "n"'), 1)),
        ("P:P@5 > 1", (">", Term("P@5", score="P"), 1)),
        ("abs:AUC > 1", (">", Term("AUC", score="abs"), 1)),
        ("AUC[slot=1,ad=9] > 1", (">", of_slice("slot=1,ad=9"), 1)),
        ("AUC [ @rows 1-4 ] > 1", (">", of_slice("@rows 1-4"), 1)),
        ('AUC["a]""b"] > 1', (">", of_slice('a]"b'), 1)),
        ("AUC[*] > 1", (">", of_slice(None), 1)),
        ('AUC["*"] > 1', (">", of_slice("*"), 1)),
        ('AUC["] > 1', (">", of_slice('"'), 1)),
        ('AUC[""] > 1', (">", of_slice(""), 1)),
        ('AUC["a] > 1', (">", of_slice('"a'), 1)),
        ('AUC[a"] > 1', (">", of_slice('a"'), 1)),
        ("AUC[all] > 1", (">", AUC, 1)),
        ("nDCG(gain='exp')@10 < 1", ("<", Term("nDCG(gain='exp')@10"), 1)),
        ("P_10-0.1<1", ("<", ("-", Term("P@10"), 0.1), 1)),
        ("alpha-nDCG @ 5 < 1", ("<", Term("alpha_nDCG@5"), 1)),
        ("ERR-IA@5 < 1", ("<", Term("ERR_IA@5"), 1)),
        ("11pt_avg < 1", ("<", Term("IPrec11"), 1)),
        ("iprec_at_recall_0.10 < 1", ("<", Term("IPrec(recall=0.1)"), 1)),
        ("nDCG(gain={1: 1, 2: 3}, base=2) < 1", ("<", Term("nDCG(gain={1: 1, 2: 3}, base=2)"), 1)),
        ("GAUC-AUC < 1", ("<", ("-", GAUC, AUC), 1)),
        (
            "1 - GAUC - AUC / 2 * 3 < 1",
            ("<", ("-", ("-", 1, GAUC), ("*", ("/", AUC, 2), 3)), 1),
        ),
        (
            "max(GAUC, AUC) - abs(-GAUC) < +1",
            ("<", ("-", ("max", GAUC, AUC), ("abs", ("-", GAUC))), 1),
        ),
        (
            "GAUC < 1 or GAUC < 2 AND not (AUC < 3 or (AUC + 1) < 4)",
            ("or", ("<", GAUC, 1), ("and", ("<", GAUC, 2),
             ("not", ("or", ("<", AUC, 3), ("<", ("+", AUC, 1), 4))))),
        ),
    ],
)  # fmt: skip
def test_parse__reads(text: str, tree: tuple) -> None:
    assert parse(text) == tree_of(tree)
    assert parse(str(tree_of(tree))) == tree_of(tree)


def test_parse__every_alias_of_every_measure__is_the_measure() -> None:
    for name in [*registry, *aliases, "P_5", "unj_3", "Rprec_mult_0.2", "alpha-DCG", "nERR-IA"]:
        assert names_measure(name), name
        text = f"{name}(bins=15)" if name.lower() in aliases and "ce" in name.lower() else name
        try:
            expected = measure(text)
        except ValueError:  # a measure that lacks an option it needs, or does not know this one
            with pytest.raises(ArgumentError, match="at character 1: "):
                parse(f"{text} < 1")
            continue
        (term,) = terms_of(parse(f"{text} < 1"))
        assert isinstance(term, Term)
        assert measure(term.measure) == expected
        assert measure(term.measure).explicit_options == expected.explicit_options


def test_words__of_the_grammar__name_no_measure() -> None:
    assert not {*FIELDS, *COUNTS, *KEYWORDS, "abs", "min", "max"} & set(aliases)


def test_parse__option_given_as_its_default__stays_given() -> None:
    (term,) = terms_of(parse("nDCG(gain='exp') < 1"))
    assert isinstance(term, Term)
    assert term.measure == text_with_options(measure("nDCG(gain='exp')")) != str(measure("nDCG"))


@pytest.mark.parametrize(
    "text,shown",
    [
        ("auc[slot=1] > 1", "AUC[slot=1] value > 1"),
        ("auc[ @rows 1-4 ] > 1", "AUC[@rows 1-4] value > 1"),
        ('auc["a]"] > 1', 'AUC["a]"] value > 1'),
        ("auc[*] > 1", "AUC[*] value > 1"),
        ("ndcg_cut_10 > 1", "ndcg_cut_10 value > 1"),
        ("ndcg(gain=exp)@3 > 1", "nDCG(gain='exp')@3 value > 1"),
        ("-auc - -1 < 1", "-AUC value - -1 < 1"),
        ("not WORSE( a:gauc[*] )", "not worse(a:GAUC[*])"),
    ],
)
def test_text__of_a_gate__has_quotes_only_where_needed_and_names_as_given(text, shown) -> None:
    assert str(parse(text)) == shown


@pytest.mark.parametrize("part", ["abs(GAUC) + ", "worse(GAUC) or "])
def test_functions__one_after_another__are_not_nested(part: str) -> None:
    row = part * 40
    parse(f"{row}1 < 2")
    parse(f"{row}{'(' * 29}GAUC{')' * 29} < 2")
    with pytest.raises(ArgumentError, match="at most 30 nested parentheses"):
        parse(f"{row}{'(' * 31}GAUC{')' * 31} < 2")


@pytest.mark.parametrize(
    "text,complaint",
    [
        ("", "expected a measure, a number, rows, .* at character 1, found the end"),
        ("GACU < 1", "at character 1, found GACU. Did you mean 'GAUC'?"),
        ("GAUC vlue < 1", "at character 6, found vlue. Did you mean 'value'?"),
        ("GAUC xyzzy < 1", "found xyzzy. Fields are value, se, "),
        ("GAUC AUC < 1", "expected a field or a comparison at character 6, found AUC"),
        ("rwos < 1", "found rwos. Did you mean 'rows'?"),
        ("a:rows < 1", "expected a measure at character 3, found rows"),
        ("a:worse(GAUC)", "in the parentheses: worse(score:GAUC)"),
        ("worse(GAUC delta)", "expected ')' after the measure at character 12, found delta."),
        ("0 < GAUC or worse(PCOC)", "at character 13: neither a higher nor a lower PCOC is worse;"),
        ("a:GACU < 1", "at character 3, found GACU. Did you mean 'GAUC'?"),
        ("nDCG(gain='xp') < 1", "at character 1: nDCG: gain must be one of .* got 'xp'"),
        ("1 < P@0", "at character 5: P@0: a cutoff"),
        ("GAUC", "expected a comparison (=, !=, <, <=, >, >=) at character 5, found the end"),
        ("not GAUC", "expected a comparison .* at character 9"),
        ("(GAUC)", "expected a comparison .* at character 7"),
        ("GAUC < 1 and AUC", "expected a comparison .* at character 17"),
        ("GAUC or AUC < 1", "expected a comparison .* at character 6, found or"),
        ("0 < GAUC < 1", "expected 'and', 'or' or the end at character 10, found <"),
        ("(GAUC < 1) + 1 < 2", "expected 'and', 'or' or the end at character 12, found +"),
        ("1 + (GAUC < 1) < 2", "expected a number or a measure at character 5, found ("),
        ("1 < (GAUC < 1)", "expected a number or a measure at character 5"),
        ("-(GAUC < 1) < 2", "expected a number or a measure at character 2"),
        ("min(1, (GAUC < 1)) < 2", "expected a number or a measure at character 8"),
        ("abs(GAUC, 1) < 2", "expected ')' at character 9, found ,"),
        ("max(GAUC 1) < 2", "expected ',' or ')' at character 10"),
        ("abs GAUC < 2", "expected '(' after abs at character 5"),
        ("(GAUC < 1", "expected ')', 'and', 'or' or a comparison at character 10, found the end"),
        ("GAUC < 1)", "expected 'and', 'or' or the end at character 9, found )"),
        ("GAUC[] < 1", "expected a slice such as [slot=1], or [*] for every slice at character 5"),
        ("GAUC[slot=1 < 1", "expected a closing ] for the one at character 5"),
        ('"pctr:GAUC < 1', 'expected a closing " for the one at character 1'),
        ('"pctr" < 1', "expected ':' and a measure after the score column at character 8, found <"),
        ("not:GAUC < 1", "at character 4, found :"),
        ("P@5:GAUC < 1", "expected a score column before the colon at character 1"),
        ("GAUC < 0x10", "expected a measure, a number or an operator at character 8"),
        ("GAUC < 1_000", "expected a measure, a number or an operator at character 8"),
        ("GAUC < 1e999", "expected a number that a double holds at character 8, found 1e999"),
        ("GAUC < nan", "at character 8, found nan"),
        ("GAUC < 'x'", "expected a measure, a number or an operator at character 8"),
        ("GAUC; rows", "character 5. Names of other signs"),
        ("1 < 2", "nothing in it is of a result. Name a measure"),
        ("not " * 40 + "GAUC < 1", "at most 30 nested parentheses and nots"),
        ("(" * 5000, "at most 30 nested parentheses and nots"),
        ("GAUC < 1" + " + 1" * 200, "at most 100 of + - * /"),
        ("-" * 5000, "at most 30 "),
    ],
)  # fmt: skip
def test_parse__refuses__and_tells_where(text: str, complaint: str) -> None:
    with pytest.raises(ArgumentError) as error:
        parse(text)
    pattern = ".*".join(re.escape(part) for part in complaint.split(".*"))
    assert re.search(pattern, str(error.value)), str(error.value)
    assert len(str(error.value)) < 800


NAMES = st.text(min_size=1, max_size=5) | st.sampled_from(["pctr", "P", "not", "abs", "all", "*"])
MEASURES = st.sampled_from(
    ["GAUC", "P@5", "nDCG(gain='exp')@10", "nDCG(gain={1: 1, 2: 3})", "GAUC(weight='a)\"b\\\\')"]
).map(lambda text: text_with_options(measure(text)))
SLICES = st.none() | st.just("all") | NAMES | st.sampled_from(["slot=1", "a]b", '"', '"a"', " x "])
NUMBERS = st.floats(0, allow_nan=False, allow_infinity=False).map(Number)
LEAVES: st.SearchStrategy[Node] = (
    NUMBERS
    | st.builds(Term, MEASURES, st.sampled_from(FIELDS), st.none() | NAMES, SLICES)
    | st.sampled_from(COUNTS).map(Count)
)


def _operations(
    operators: list[str], parts: st.SearchStrategy[Node], least: int, most: int
) -> st.SearchStrategy[Operation]:
    several = st.lists(parts, min_size=least, max_size=most).map(tuple)
    return st.builds(Operation, st.sampled_from(operators), several)


QUANTITIES = st.recursive(
    LEAVES,
    lambda inner: (
        _operations(["-", "abs"], inner, 1, 1)
        | _operations(["+", "-", "*", "/"], inner, 2, 2)
        | _operations(["min", "max"], inner, 1, 3)
    ),
    max_leaves=6,
)
CONDITIONS: st.SearchStrategy[Operation] = st.recursive(
    _operations(["=", "!=", "<", "<=", ">", ">="], QUANTITIES, 2, 2),
    lambda inner: _operations(["not"], inner, 1, 1) | _operations(["and", "or"], inner, 2, 3),
    max_leaves=5,
).filter(lambda tree: any(True for _ in terms_of(tree)))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(CONDITIONS)
def test_text__of_a_tree__reads_as_the_tree(tree: Operation) -> None:
    assert parse(str(tree)) == tree


PIECES = st.sampled_from([
    "GAUC", "AUC", "P@5", "nDCG(gain=", "'exp')", "P-IA", "alpha-nDCG", "11pt_avg", "pctr", "and",
    "or", "not", "abs(", "min(", "max(", "(", ")", ",", ":", "[slot=1]", "[*]", "[", "]", '"',
    '"a"', "'", "rows", "groups", "value", "delta", "se", "<", "<=", ">", ">=", "=", "==", "!=",
    "<>", "+", "-", "*", "/", "0.5", "1e-3", ".5", "1e999", "0x1", "1_0", "@", "\\", "#", "{", "}",
    "é", "_", "²", "\x00", "½",
])  # fmt: skip
GARBAGE = st.lists(PIECES | st.text(max_size=3), max_size=14).flatmap(
    lambda parts: st.sampled_from(["", " "]).map(lambda glue: glue.join(parts))
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(GARBAGE)
def test_parse__anything__is_a_gate_or_an_argument_error(text: str) -> None:
    try:
        tree = parse(text)
    except ArgumentError:
        return
    assert parse(str(tree)) == tree


@settings(max_examples=200, deadline=None, derandomize=True)
@given(CONDITIONS, st.data())
def test_parse__a_gate_with_a_sign_changed__raises_nothing_else(tree, data) -> None:
    text = str(tree)
    at = data.draw(st.integers(0, len(text)))
    width = data.draw(st.integers(0, 3))
    changed = text[:at] + data.draw(st.text(max_size=2)) + text[at + width :]
    try:
        again = parse(changed)
    except ArgumentError:
        return
    assert parse(str(again)) == again
