"""Run the command line with memory for no row: `--memory` spills scattered rows.

The program's arguments follow this file's name, or the name of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from fastrank_eval._lib.threads import Budget


def spill() -> Callable[[], None]:
    """Leave no room for rows to runs with a limit; return what ends this."""
    run = import_module("fastrank_eval.engine.run")
    budget_of = run.memory_budget

    def budget(memory: str | int | None, threads: int, pooled: bool) -> Budget:
        return Budget(1 << 28, 0) if memory else budget_of(memory, threads, pooled)

    run.memory_budget = budget  # type: ignore[attr-defined]
    return lambda: setattr(run, "memory_budget", budget_of)


if __name__ == "__main__":
    spill()
    from fastrank_eval.__main__ import main

    main()
