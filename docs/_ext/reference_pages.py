"""Write a page for each measure, and pages of conventions, from what the package declares.

The examples and tables of values are evaluated when the pages are built.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from meanings import FIELD_MEANINGS, HISTORY
from sphinx.application import Sphinx

import fastrank_eval as fe
from bench.workload import MEASURES
from fastrank_eval._lib.log import LOGGERS
from fastrank_eval.apps.cli.shell import ExitCode
from fastrank_eval.apps.nightly import config, config_checks
from fastrank_eval.apps.nightly.history import APART, TABLES, columns
from fastrank_eval.apps.nightly.night import (
    CurveLine,
    GateOutcome,
    Night,
    NightCalibration,
    NightDrift,
    NightQuality,
)
from fastrank_eval.engine.conventions import PROFILES
from fastrank_eval.engine.options import OPTIONS
from fastrank_eval.engine.records import JSON_SCHEMAS
from fastrank_eval.groups.ties import TIES
from fastrank_eval.measures import Measure, registry
from fastrank_eval.measures.names import COMPARISON_FIELDS, VALUE_FIELDS
from fastrank_eval.results.lookup import entries

HERE = Path(__file__).parents[1]
#: Headings of the families, by the file that defines them, in the order of the page.
FAMILIES = {
    "auc": "Areas and separation",
    "gain": "Discounted gain",
    "average_precision": "Average precision",
    "precision": "Precision, recall and first hits",
    "user_models": "Models of a reader",
    "judged": "Incomplete judgements",
    "diversity": "Diversity",
    "likelihood": "Probabilities and errors of numbers",
    "calibration": "Calibration",
    "multicalibration": "Calibration by slice",
    "calibration_free": "Calibration taken out",
    "decisions": "Decisions at a threshold",
}
#: Options without which some measures have no meaning, tried in turn.
COMPLETIONS = ("", "(bins=5)", "(recall=0.5)", "(field='slot')", "(columns='slot', min_clicks=0)")

LOG = {
    "user_id": [1, 1, 1, 1, 2, 2, 2],
    "click": [0, 1, 0, 1, 0, 1, 0],
    "score_a": [0.9, 0.7, 0.4, 0.2, 0.5, 0.5, 0.1],
    "slot": ["top", "top", "side", "side", "top", "side", "side"],
}
JUDGED = {**LOG, "click": [0, 1, None, 1, 0, 1, None]}
COVERED = {**LOG, "subtopics": [[], [0], [1], [0, 1], [], [2], [2]]}
#: The records in the document of a night, by their key.
DOCUMENT = {
    "": Night,
    "quality": NightQuality,
    "curves": CurveLine,
    "gates": GateOutcome,
    "drift": NightDrift,
    "calibration": NightCalibration,
}
#: How a measure uses scores.
SCORES = {
    "order": "any numbers; only their order counts",
    "number": "numbers; their value counts",
    "finite number": "finite numbers; their value counts",
    "probability": "probabilities in [0, 1]",
}
INTRODUCTION = (
    "Each page has the formula, the options, an example, the values of tied scores and of groups "
    "at the edges, and the names in other tools. `fastrank-eval measures` prints the list.\n\n"
    "A measure is named by its text: a name, options in parentheses, and a cutoff. "
    "`nDCG(gain='linear')@10` and `nDCG@10` are two measures. In Python, "
    '`fe.nDCG(gain="linear") @ 10` and `fe.measure("nDCG(gain=\'linear\')@10")` are equal. '
    "Names of other tools are read too: `ndcg_cut_10`, `map`, `recall_5`, `MRR`."
)
#: Groups at the edges: labels and scores of one group each.
EDGES = {
    "two rows, none relevant": ([0, 0], [0.8, 0.3]),
    "two rows, both relevant": ([1, 1], [0.8, 0.3]),
    "one relevant row": ([1], [0.8]),
    "a relevant and another row, with equal scores": ([1, 0], [0.5, 0.5]),
}
#: Columns of the report of `make bench ARGS=scale` that a page shows, with their headings there.
SCALE_COLUMNS = {
    "rows": "rows",
    "order": "order",
    "measures": "measures",
    "memory": "`--memory`",
    "seconds": "seconds",
    "peak, MB": "peak, MB",
}
TIED = {
    "user_id": [1] * 4,
    "click": [0, 1, 0, 0],
    "score_a": [0.9, 0.5, 0.5, 0.5],
    "item": ["a", "b", "c", "d"],
    "slot": ["top"] * 4,
    "subtopics": [[], [0], [], []],
}


def plain(text: str) -> str:
    """Escape text for markdown, but for what stands in backticks; link its DOIs."""
    parts = text.split("`")
    for index in range(0, len(parts), 2):
        words = []
        for word in re.split(r"(\s+)", parts[index]):
            doi = re.fullmatch(r"doi:(10\..*?)([,;]?)", word)
            if doi:
                target = doi[1].replace("<", "%3C").replace(">", "%3E")
                target = target.replace("(", "%28").replace(")", "%29")
                words.append(f"[doi:{_escaped(doi[1])}](https://doi.org/{target}){doi[2]}")
            else:
                words.append(_escaped(word))
        parts[index] = "".join(words)
    return "`".join(parts)


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_{}\[\]<>#|$~])", r"\\\1", text)


def sentence(text: str) -> str:
    """Write a text as a sentence."""
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Write a markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def code(text: str, language: str = "text") -> list[str]:
    """Write a block of code."""
    return [f"```{language}", *text.splitlines(), "```", ""]


def complete(kind: type[fe.Measure]) -> fe.Measure:
    """Return the measure of the examples: with a cutoff, and the options that it needs."""
    for options in COMPLETIONS:
        try:
            measure = fe.measure(f"{kind.name}{options}" + ("@3" if kind.takes_cutoff else ""))
            measure.check_complete()
        except fe.MeasureError:
            continue
        return measure
    raise ValueError(f"{kind.name}: COMPLETIONS has no options that it needs")


def roles(measure: fe.Measure) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a log that the measure can read, and the arguments that name its columns."""
    options = {"group": "user_id", "label": "click", "score": "score_a"}
    log: dict[str, Any] = {name: LOG[name] for name in ("user_id", "click", "score_a")}
    if measure.needs_subtopics:
        log, options["subtopics"] = {**COVERED}, "subtopics"
        del log["slot"]
    elif measure.needs_judgments or measure.name in ("Judged", "Unjudged", "RBPres"):
        log, options["unjudged"] = {**JUDGED}, "allow"
        del log["slot"]
    if {"field", "columns"} & measure.explicit_options:
        log["slot"] = LOG["slot"]
    if measure.refuses("expected"):
        options["ties"] = "input"
    return log, options


def shown(value: fe.MeasureValue) -> str:
    """Write a value, or why there is none."""
    if value.value == value.value:
        return f"{value.value:.4g}"
    return "undefined: " + ", ".join(f"`{reason}`" for reason in value.dropped)


def example(measure: fe.Measure) -> list[str]:
    """Write an evaluation and what it prints."""
    log, options = roles(measure)
    arguments = ", ".join(f'{name}="{value}"' for name, value in options.items())
    text = str(measure).replace('"', '\\"')
    columns = "".join(f'    "{name}": {values},\n' for name, values in log.items()).rstrip("\n")
    calls = [
        "import fastrank_eval as fe",
        f"log = {{\n{columns}\n}}",
        f'result = fe.evaluate(log, {arguments},\n                     measures="{text}")',
    ]
    names: dict[str, Any] = {}
    lines = []
    for call in calls:
        exec(call, names)  # noqa: S102
        lines += [(">>> " if n == 0 else "... ") + part for n, part in enumerate(call.split("\n"))]
    asked = [f'round(result.value("{text}"), 4)']
    if not measure.pooled:
        asked.append(f'result["{text}"].round(4)  # of each user')
    for call in asked:
        lines += [f">>> {call}", repr(eval(call, names))]  # noqa: S307
    return code("\n".join(lines), "pycon")


def error(measure: fe.Measure) -> str:
    """Say whether the value of a log with groups has a standard error."""
    if measure.has_error:
        return "yes, with groups as clusters"
    return "by the option `se`" if "se" in measure.option_values else "no"


def edges(measure: fe.Measure) -> list[str]:
    """Write what a group at the edge counts, or why it is left out."""
    _, options = roles(measure)
    rows = []
    for name, (labels, scores) in EDGES.items():
        many = len(labels)
        log = {"user_id": [1] * many, "click": labels, "score_a": scores, "slot": ["top"] * many,
               "subtopics": [[0] if label else [] for label in labels]}  # fmt: skip
        try:
            (value,) = fe.evaluate(log, measures=[measure], **options)
        except fe.FastRankEvalError as error:
            rows.append([name, f"error: {plain(str(error).partition(';')[0])}"])
            continue
        rows.append([name, shown(value)])
    what = "all rows are" if measure.pooled else "a group is"
    return [*table([f"where {what}", "value"], rows), ""]


def ties(measure: fe.Measure) -> list[str]:
    """Write the values of one tied group under each policy."""
    _, options = roles(measure)
    rows = []
    for policy in TIES:
        chosen = {**options, "ties": policy, **({"item": "item"} if policy == "item" else {})}
        if measure.refuses(policy):
            rows.append([f"`{policy}`", "refused"])
            continue
        try:
            (value,) = fe.evaluate(TIED, measures=[measure], **chosen)
        except fe.FastRankEvalError:
            rows.append([f"`{policy}`", "refused"])
        else:
            rows.append([f"`{policy}`", shown(value)])
    return [
        "A group of four rows: the first has the highest score, the relevant row shares its score "
        "with the two after it (items `b`, `c`, `d`).", "",
        *table(["`ties=`", "value"], rows), "",
    ]  # fmt: skip


def accepted(read: Callable[[Any], Any]) -> str:
    """Say which values an option takes, in the words of its error."""
    text = _refusal(read, float("nan"))
    text = text.replace("finite ", "").strip()
    if text and not _refusal(read, None) and "None" not in text:
        text += ", or None"
    return text


def _refusal(read: Callable[[Any], Any], value: object) -> str:
    try:
        read(value)
    except (TypeError, ValueError) as error:
        return str(error)
    return ""


def theirs() -> Mapping[str, Mapping[str, list[str]]]:
    """Read from the parity page what other tools call each measure, by profile."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    text = (HERE / "reference" / "parity.md").read_text(encoding="utf-8")
    for section in re.split(r"^## `", text, flags=re.MULTILINE)[1:]:
        profile = section.partition("`")[0]
        for name, ours in re.findall(r"^\| `([^`]*)` \| `([^`]*)` \| [\d,]+ \|", section, re.M):
            names = found[fe.measure(ours).name][profile]
            if "level" not in name and name not in names:
                names.append(name)
    return found


def direction(kind: type[Measure]) -> str:
    """Say which values of a measure are better."""
    if not kind.has_direction:
        return "neither higher nor lower is better"
    return "higher is better" if kind.higher_is_better else "lower is better"


def measure_page(entry: dict[str, Any], others: Mapping[str, list[str]]) -> str:
    """Write the page of a measure."""
    kind, name = registry[entry["name"]], entry["name"]
    measure = complete(kind)
    title = f"{name}@k" if entry["cutoff"] else name
    low, high = ("" if bound is None else f"{bound:g}" for bound in entry["range"])
    facts = [
        ["range", f"{low or 'no lower bound'} to {high or 'no upper bound'}, "
         + direction(kind)],
        ["over groups", "of all rows at once" if kind.pooled else f"{entry['aggregate']} of the "
         "values of the groups"],
        ["scores", SCORES[kind.scores]],
        ["rows without a score", null_scores(kind)],
        ["row weights", "yes" if kind.uses_row_weights else "no"],
        ["standard error", error(measure)],
        ["needs", ", ".join(kind_needs(kind)) or "nothing else"],
        ["reference", plain(entry["reference"])],
    ]  # fmt: skip
    names = [f"`{word}`" for word in entry["aliases"]]
    names += [
        f"`{word}` ({', '.join(f'`{option}={value!r}`' for option, value in preset.items())})"
        for word, preset in entry["presets"].items()
    ]
    if names:
        facts.append(["other names", ", ".join(names)])
    lines = [f"# {plain(title)}", "", plain(sentence(entry["summary"])), ""]
    body = (inspect.getdoc(kind) or "").partition("\n\n")[2]
    if body and "__doc__" in kind.__dict__:
        lines += ["```{eval-rst}", body, "```", ""]
    lines += [*code(entry["formula"].replace(",  ", ",\n")), *table(["", ""], facts), ""]
    lines += ["## Options", ""]
    if kind.options:
        rows = [
            [f"`{option.name}`", f"`{option.default!r}`", plain(accepted(option.read)),
             plain(sentence(option.doc))]
            for option in kind.options
        ]  # fmt: skip
        lines += [*table(["option", "default", "accepts", "meaning"], rows), ""]
    else:
        lines += ["None.", ""]
    lines += ["## Example", "", *example(measure)]
    if not kind.pooled and kind.scores == "order":
        lines += ["## Tied scores", "", *ties(measure)]
    lines += ["## At the edges", "", *edges(measure)]
    if not kind.pooled:
        lines += ["`undefined=` and `groups=` change what an undefined group counts: "
                  "[](../conventions.md).", ""]  # fmt: skip
    if others:
        rows = [
            [f"[`{profile}`](../parity.md)", ", ".join(f"`{word}`" for word in words[:3])
             + (f" and {len(words) - 3} more" if len(words) > 3 else "")]
            for profile, words in others.items()
        ]  # fmt: skip
        lines += ["## The same number in other tools", "",
                  *table(["profile", "its name there"], rows), ""]  # fmt: skip
    return "\n".join(lines)


def null_scores(kind: type[fe.Measure]) -> str:
    """Say what `unretrieved="allow"` does with them."""
    if kind.scores in ("probability", "finite number"):
        return '`unretrieved="allow"` is refused'
    last = kind.pooled or kind.ranks_every_row
    where = "below all others, tied" if last else "not in the list, but in R and in the ideal"
    return f'with `unretrieved="allow"`: {where}'


def kind_needs(kind: type[fe.Measure]) -> Iterator[str]:
    """Yield what rows must have besides a group, a label and a score."""
    if kind.needs_relevant:
        yield "a relevant row in each group"
    if kind.needs_judgments:
        yield 'judged rows (`unjudged="allow"` admits others)'
    if kind.needs_subtopics:
        yield "a column of `subtopics`"


def measures_index() -> str:
    """Write the list of measures by family."""
    lines = ["# Measures", "", INTRODUCTION, ""]
    families: dict[str, list[list[str]]] = {heading: [] for heading in FAMILIES.values()}
    for entry in entries():
        kind = registry[entry["name"]]
        heading = FAMILIES[kind.__module__.rpartition(".")[2]]
        title = f"{entry['name']}@k" if entry["cutoff"] else entry["name"]
        families[heading].append(
            [f"[{plain(title)}]({entry['name']}.md)", plain(sentence(entry["summary"]))]
        )
    for heading, rows in families.items():
        lines += [f"## {heading}", "", *table(["measure", "value"], rows), ""]
    lines += ["```{toctree}", ":hidden:", "", *(entry["name"] for entry in entries()), "```", ""]
    return "\n".join(lines)


def profiles_page() -> str:
    """Write what each profile sets."""
    lines = [
        "# Profiles", "",
        "A profile sets the conventions of another tool: `profile=\"catboost\"`, `--profile "
        "catboost`. Arguments and options that you pass override it. [](parity.md) lists, measure "
        "by measure, how close the numbers are; `fastrank-eval explain` shows how much each "
        "convention changes on your rows.", "",
    ]  # fmt: skip
    for name, profile in PROFILES.items():
        rows = [[f"`{argument}`", f"`{choice}`"] for argument, choice in profile.choices.items()]
        rows += [
            [f"[{measure}](measures/{measure}.md)",
             ", ".join(f"`{option}={value!r}`" for option, value in options.items())]
            for measure, options in profile.options.items()
        ]  # fmt: skip
        lines += [f"## `{name}`", "", f"Conventions of {plain(profile.tool)}.", ""]
        if not profile.complete:
            lines += ["`fe.trec.evaluate` leaves out judged queries without results.", ""]
        if profile.drop_self:
            lines += ["`fe.trec.evaluate` leaves out a document that has the id of its query.", ""]
        lines += [*table(["argument or measure", "set to"], rows), ""]
        if profile.apart is not None:
            names = ", ".join(f"[{one}](measures/{one}.md)" for one in profile.apart.options)
            choices = ", ".join(f"`{a}={c!r}`" for a, c in profile.apart.choices.items())
            absent = "counts 0" if profile.apart.complete else "is left out"
            lines += [f"Other conventions hold for {names}, in `fe.trec.evaluate` alone: "
                      f"{choices}; a judged query without results {absent}.", ""]  # fmt: skip
        lines += [f"`{name}` is refused: {plain(why)}." for name, why in profile.refused.items()]
        lines += [""] if profile.refused else []
        if profile.differs:
            lines += ["The tool also does this, which no option here reproduces:", ""]
            lines += [f"* {plain(text)}" for text in profile.differs] + [""]
    return "\n".join(lines)


def gate_fields() -> str:
    """Write the fields of gates, which the page of the grammar includes."""
    lines = []
    for heading, fields in (
        ("Of `evaluate`, `compare` and `nightly`", VALUE_FIELDS),
        ("Of `compare` and `nightly` alone", COMPARISON_FIELDS),
    ):
        rows = [[f"`{field}`", FIELD_MEANINGS[field]] for field in fields]
        lines += [f"**{heading}**", "", *table(["field", "meaning"], rows), ""]
    return "\n".join(lines)


def exit_code_table() -> str:
    """Write the exit codes of the command line."""
    rows = [
        [f"{code:d}", ", ".join(f"`{name}`" for name in code.commands) or "all", code.meaning,
         code.remedy]
        for code in ExitCode
    ]  # fmt: skip
    return "\n".join([*table(["exit code", "commands", "meaning", "what to do"], rows), ""])


def logger_table() -> str:
    """Write the names of the loggers."""
    rows = [[f"`{name}`", meaning] for name, meaning in LOGGERS.items()]
    return "\n".join([*table(["logger", "lines"], rows), ""])


def option_table() -> str:
    """Write the options of `evaluate`."""
    sections: dict[str, list[list[str]]] = {}
    for name, option in OPTIONS.items():
        words = ", ".join(f'`"{word}"`' for word in option.choices)
        values = f"Values: {words}" if words else f"Type: `{option.type}`"
        default = option.convention or option.default
        said = "required" if default is ... else f"default `{default!r}`"
        facts = f"{sentence(plain(option.help))} {values}; {said}."
        rows = sections.setdefault(option.section or "In Python", [])
        rows.append([f"`{name}`", facts.replace("|", r"\|")])
    lines = []
    for section, rows in sections.items():
        lines += [f"## {section}", "", *table(["option", "meaning"], rows), ""]
    return "\n".join(lines)


def scale_table() -> str:
    """Write seconds and memory by rows, from the report of `make bench ARGS=scale`."""
    report = (HERE.parent / "bench" / "SCALE.md").read_text(encoding="utf-8")
    facts = dict(re.findall(r"^\* ([\w ]+): (.+)$", report, re.MULTILINE))
    section = report.partition("\n## Evaluations\n")[2].partition("\n## ")[0]
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    kept = [head.index(name) for name in SCALE_COLUMNS]
    lists = "; ".join(f"*{name}*: {MEASURES[name]}" for name in ("seven", "eight"))
    return "\n".join(
        [
            *table(list(SCALE_COLUMNS.values()), [[row[index] for index in kept] for row in rows]),
            "",
            f"{facts['date']}, {facts['processor']}, {facts['threads']} threads. {lists}.",
            "",
        ]
    )


def measured(name: str, section: str) -> str:
    """Return the last section of the report of a benchmark, such as `make bench ARGS=disk`."""
    report = (HERE.parent / "bench" / name).read_text(encoding="utf-8")
    return report.partition(f"\n## {section}\n\n")[2]


def history_tables() -> str:
    """Write the columns of the tables that a new history has."""
    lines = []
    for name in TABLES:
        rows = [
            [f"`{column}`", kind.lower(), HISTORY.get(f"{name}.{column}") or HISTORY[column]]
            for column, kind in columns(name).items()
        ]
        lines += [f"### `{name}`", "", HISTORY[f"{name}."], ""]
        lines += [*table(["column", "type", "meaning"], rows), ""]
    lines += ["## The document of a night", "", HISTORY["document."], ""]
    for name, record in DOCUMENT.items():
        keys = [each.name for each in dataclasses.fields(record)]
        if not name:
            keys = [key for key in keys if key not in APART] + ["written_at"]
        rows = [[f"`{key}`", HISTORY.get(f"{name}.{key}") or HISTORY[key]] for key in keys]
        lines += [f"### `{name}`", "", HISTORY[f"{name}."], ""] if name else []
        lines += [*table(["key", "meaning"], rows), ""]
    return "\n".join(lines)


def config_tables() -> str:
    """Write the keys of each table of a configuration, with the comments of the example."""
    meanings: dict[tuple[str, str], list[str]] = {}
    lead: list[str] = []
    name, key = "", ""
    for line in config.example().splitlines():
        parts = re.fullmatch(r"(?:# )?(\w+) = (.*?)(?:\s{2,}# (.*))?", line)
        if opened := re.fullmatch(r"(?:# )?\[([\w.]+)\].*", line):
            name, lead, key = opened[1], [], ""
        elif parts:
            key = parts[1]
            meanings[name, key] = [*lead, *filter(None, [parts[3]])]
            lead = []
        elif key and (more := re.fullmatch(r" {8,}# (.*)", line)):
            meanings[name, key].append(more[1])
        else:
            lead = [*lead, line.removeprefix("# ")] if line.startswith("# ") else []
    lines = []
    for name, keys in config_checks.TABLES.items():
        rows = [
            [
                f"`{key}`",
                "required" if one.required else _default(one.default),
                plain(" ".join(meanings.get((name, key), [])))
                or plain(OPTIONS[key].help if key in OPTIONS and name != "quality" else ""),
            ]
            for key, one in keys.items()
        ]
        heading = f"### `[{name}]`" if name else "### Before the first table"
        lines += [heading, "", *table(["key", "default", "meaning"], rows), ""]
    return "\n".join(lines)


def _default(value: object) -> str:
    """Write a default as TOML does; nothing if there is none."""
    return "" if value in (None, ()) else f"`{json.dumps(value)}`"


def json_keys() -> str:
    """Write the keys of each JSON document, by the parts of its schema."""
    lines = []
    for name in JSON_SCHEMAS:
        text = resources.files("fastrank_eval").joinpath(f"schemas/{name}.json").read_text("utf-8")
        schema = json.loads(text)
        lines += [f"### `{name}`", "", sentence(plain(schema["description"])), ""]
        parts = {"": schema.get("items", schema), **schema.get("$defs", {})}
        for part, rules in parts.items():
            if "properties" in rules:
                lines += _part(part, rules)
    return "\n".join(lines)


def _part(part: str, rules: Mapping[str, Any]) -> list[str]:
    rows = [
        [
            f"`{key}`" if key in rules["required"] else f"*`{key}`*",
            _json_type(inner),
            plain(inner.get("description", "")),
        ]
        for key, inner in rules["properties"].items()
    ]
    heading = (
        [f"**{part}**: {plain(rules.get('description', ''))}".rstrip(": "), ""] if part else []
    )
    return [*heading, *table(["key", "type", "meaning"], rows), ""]


def _json_type(rules: Mapping[str, Any]) -> str:
    """Name the type of a key."""
    if "const" in rules:
        return f"{rules['const']}"
    if "$ref" in rules:
        return str(rules["$ref"].rpartition("/")[2])
    if "anyOf" in rules:
        return " or ".join(map(_json_type, rules["anyOf"]))
    if rules["type"] == "array":
        return f"list of {_json_type(rules['items'])}"
    kinds = rules["type"] if isinstance(rules["type"], list) else [rules["type"]]
    return " or ".join(kinds)


def write_pages(app: Sphinx) -> None:
    """Write all pages; leave a page alone if it is as before."""
    others = theirs()
    folder = HERE / "reference" / "measures"
    pages = {"index.md": measures_index()}
    pages |= {f"{e['name']}.md": measure_page(e, others.get(e["name"], {})) for e in entries()}
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in pages:
            path.unlink()
    files = {folder / name: text for name, text in pages.items()}
    files[HERE / "reference" / "profiles.md"] = profiles_page()
    files[HERE / "reference" / "exit-codes.inc"] = exit_code_table()
    files[HERE / "reference" / "gate-fields.inc"] = gate_fields()
    files[HERE / "reference" / "history-tables.inc"] = history_tables()
    files[HERE / "reference" / "config-keys.inc"] = config_tables()
    files[HERE / "reference" / "json-keys.inc"] = json_keys()
    files[HERE / "reference" / "options.inc"] = option_table()
    files[HERE / "reference" / "loggers.inc"] = logger_table()
    files[HERE / "how-to" / "scale.inc"] = scale_table()
    files[HERE / "how-to" / "disk.inc"] = measured("DISK.md", "Sizes")
    files[HERE / "how-to" / "many-rows.inc"] = measured("NIGHT.md", "Costs")
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def escape_help(app: Sphinx, context: object, lines: list[str]) -> None:
    """Escape signs of help texts that reStructuredText reads as markup."""
    lines[:] = [re.sub(r"(?<!\*)\*(?!\*)", r"\\*", line) for line in lines]


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads any."""
    app.connect("builder-inited", write_pages)
    for part in ("description", "options", "arguments", "epilog"):
        app.connect(f"sphinx-click-process-{part}", escape_help)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
