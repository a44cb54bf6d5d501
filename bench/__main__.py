"""`python -m bench`: run every case, then write RESULTS.md, the block of the README, LOCK.md.

``python -m bench scale ...`` runs another of the benchmarks: `OTHERS`.
"""

from __future__ import annotations

import argparse
import runpy
import subprocess
import sys
from pathlib import Path

from bench import lock
from bench.report import fill_block, readme_block, results
from bench.runs import read_run

#: Programs of their own, with options of their own.
OTHERS = (
    "alarms", "cores", "coverage", "disk", "lock", "night", "nulls", "profile", "scale", "spark",
)  # fmt: skip
ROOT = Path(__file__).parent.parent
RUN = ROOT / "build" / "bench" / "run.json"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, or only write up an earlier run; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--from", dest="run", type=Path, metavar="JSON", help="write up this run, measure nothing"
    )
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "RESULTS.md")
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.epilog = f"Others: python -m bench {{{','.join(OTHERS)}}} --help"
    chosen = parser.parse_args(arguments)

    if chosen.run is None:
        RUN.parent.mkdir(parents=True, exist_ok=True)
        status = _measure(RUN)
        if status:
            return status
    run = read_run(chosen.run or RUN)
    text = results(run)
    chosen.results.write_text(text, encoding="utf-8")
    print(text)
    print(f"wrote {chosen.results}")
    readme = fill_block(chosen.readme.read_text(encoding="utf-8"), readme_block(run))
    if readme is None:
        print(f"{chosen.readme} has no block for the benchmark: left as it is")
    else:
        chosen.readme.write_text(readme, encoding="utf-8")
        print(f"filled the block of {chosen.readme}")
    if chosen.run is None:
        lock.main([])
    return 0


def _measure(output: Path) -> int:
    cases = str(ROOT / "bench" / "test_speed.py")
    options = ["-q", "--benchmark-json", str(output), "--benchmark-columns=median,min,rounds"]
    pytest = [sys.executable, "-m", "pytest", cases, *options]
    return subprocess.run(pytest, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in OTHERS:
        runpy.run_module(f"bench.{sys.argv.pop(1)}", run_name="__main__", alter_sys=True)
    else:
        sys.exit(main())
