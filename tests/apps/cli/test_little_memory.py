"""The command line under a limit of virtual memory: one line, no traceback, no abort."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as papq
import pytest

import fastrank_eval as fe
from fastrank_eval.io.source import reading

KB = 1 << 10


def run(
    folder: Path, *words: str, limit: int, program: Sequence[str] = ("-m", "fastrank_eval")
) -> subprocess.CompletedProcess[str]:
    papq.write_table(pa.table({"user": [1, 1], "click": [0, 1], "pctr": [0.1, 0.2]}), folder / "a")
    return subprocess.run(
        [sys.executable, *program, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )


@pytest.mark.parametrize("kilobytes", [200_000, 700_000])
def test_evaluate_with_too_little_virtual_memory__says_so_in_one_line(
    tmp_path: Path, kilobytes: int
) -> None:
    words = ("evaluate", "a", "-g", "user", "-l", "click", "-s", "pctr", "-m", "GAUC")
    found = run(tmp_path, *words, limit=kilobytes * KB)
    assert found.returncode == 1
    assert found.stdout == ""
    megabytes = kilobytes * KB // 10**6
    assert found.stderr.startswith(f"error: virtual memory is limited to {megabytes} MB (ulimit")
    assert found.stderr.count("\n") == 1


def test_evaluate_under_a_limit__leaves_libraries_few_addresses(tmp_path: Path) -> None:
    code = """
import re, sys
from pathlib import Path
from fastrank_eval.apps.cli.main import main
try:
    main()
finally:
    status = Path("/proc/self/status").read_text()
    print(*re.findall(r"VmPeak:\\s+([0-9]+) kB", status), file=sys.stderr)
"""
    words = ("evaluate", "a", "-g", "user", "-l", "click", "-s", "pctr", "-m", "GAUC,AUC")
    found = run(tmp_path, *words, limit=16 * 10**9, program=["-c", code])
    assert found.returncode == 0
    assert int(found.stderr) * KB < 1_200_000_000 + 64_000_000 * (os.cpu_count() or 1)


def test_help_with_little_virtual_memory__is_printed(tmp_path: Path) -> None:
    found = run(tmp_path, "evaluate", "--help", limit=200_000 * KB)
    assert found.returncode == 0
    assert found.stdout.startswith("Usage:")


def test_memory_that_arrow_cannot_get__is_an_error_that_names_the_file() -> None:
    told = pytest.raises(
        fe.SourceError, match=r"'a.parquet': it asks for more memory than there is"
    )
    with told, reading("'a.parquet'", "Copy it again."):
        raise pa.ArrowMemoryError("realloc of size 160000 failed")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs the allocator of glibc")
@pytest.mark.parametrize("variables, reused", [({}, True), ({"MALLOC_ARENA_MAX": "4"}, False)])
def test_large_arrays__of_a_command__reuse_memory_unless_the_user_decides(
    variables: dict[str, str], reused: bool
) -> None:
    program = (
        "from fastrank_eval.__main__ import reuse_memory\n"
        "reuse_memory()\n"
        "import numpy as np, pathlib\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "array = ThreadPoolExecutor(1).submit(np.ones, 1 << 23).result()\n"
        "address = array.ctypes.data\n"
        "maps = pathlib.Path('/proc/self/maps').read_text().splitlines()\n"
        "heap = next(line for line in maps if '[heap]' in line).split()[0].split('-')\n"
        "print(int(heap[0], 16) <= address < int(heap[1], 16))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"{reused}\n"
