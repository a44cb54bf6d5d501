"""The processors of a process: those that it may run on, and the quota of its container."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from fastrank_eval._lib import threads
from fastrank_eval._lib.threads import processors

pytestmark = [
    pytest.mark.no_kernels,
    pytest.mark.skipif(sys.platform != "linux", reason="needs control groups, which Linux has"),
]


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine of eight processors without control groups."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(threads, "CONTROL_GROUPS", str(tmp_path / "cgroup"))
    monkeypatch.setattr(threads, "GROUPS_OF_PROCESS", str(tmp_path / "groups of the process"))
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    """Write a file of a process that has not read its limit yet."""
    threads._quota.cache_clear()
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_processors__no_control_groups__are_those_it_may_run_on(groups: Path) -> None:
    assert processors() == 8


@pytest.mark.parametrize(
    "quota,count",
    [
        ("200000 100000", 2),
        ("150000 100000", 2),
        ("10000 100000", 1),
        ("1600000 100000", 8),
        ("max 100000", 8),
        ("", 8),
        ("0 0", 8),
        ("many", 8),
    ],
)
def test_processors__quota_of_a_container__limits_them(
    groups: Path, quota: str, count: int
) -> None:
    write(groups, "groups of the process", "0::/\n")
    write(groups, "cgroup/cpu.max", f"{quota}\n")
    assert processors() == count


def test_processors__quota_of_a_service_and_of_groups_above__the_smallest_counts(
    groups: Path,
) -> None:
    write(groups, "groups of the process", "0::/system.slice/night.service\n")
    write(groups, "cgroup/system.slice/night.service/cpu.max", "500000 100000\n")
    assert processors() == 5
    write(groups, "cgroup/system.slice/cpu.max", "300000 100000\n")
    assert processors() == 3


@pytest.mark.parametrize("quota,count", [("250000", 3), ("-1", 8)])
@pytest.mark.parametrize("name", ["/", "/kubepods/pod1"])
def test_processors__quota_of_version_1__limits_them(
    groups: Path, name: str, quota: str, count: int
) -> None:
    """A container sees its own group as the root, but the name that it has outside."""
    write(groups, "groups of the process", f"9:name=systemd:/\n3:cpuset:/\n1:cpu,cpuacct:{name}\n")
    write(groups, "cgroup/cpu/cpu.cfs_quota_us", f"{quota}\n")
    write(groups, "cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert processors() == count
