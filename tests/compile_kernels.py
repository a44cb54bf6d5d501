"""Compile the kernels of many tests before the processes of pytest start.

``python -m tests.compile_kernels`` evaluates what a wheel is built by, in one process for each
core. The processes share a store of kernels: one compiles a kernel, all others load it.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from hatch_build import evaluations

CORES = os.cpu_count() or 1


def call_part(part: int) -> None:
    """Call as many of them as a core has to; neighbours share kernels."""
    with TemporaryDirectory() as folder:
        calls = list(evaluations(Path(folder)))
        for function, args, options in calls[len(calls) * part // CORES :][
            : len(calls) // CORES + 1
        ]:
            function(*args, **options)


def main() -> None:
    """Call all of them in one process for each core."""
    with ProcessPoolExecutor(CORES, mp_context=get_context("spawn")) as pool:
        list(pool.map(call_part, range(CORES)))


if __name__ == "__main__":
    main()
