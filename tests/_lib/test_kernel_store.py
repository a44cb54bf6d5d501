"""Damaged, unsafe, full and shared stores: kernels run, numbers are right, nothing is left over."""

import os
import random
import resource
import stat
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fastrank_eval._lib import compiler, kernel_store
from fastrank_eval._lib.jit import Content, compilations
from tests.support.kernel_modules import SUM, import_files, run_program, use_store

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners of files"),
]

VALUES = np.arange(5.0)
OTHER = SUM.replace("total", "other").replace("+= value", "-= value")
PLACES = 100
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
OTHER_USER = 65534


@pytest.fixture
def store(empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    use_store(empty_store, monkeypatch)
    yield empty_store
    kernel_store.user_store.cache_clear()


@pytest.fixture
def content(store: Path, tmp_path: Path) -> Content:
    """A kernel that has an entry in the store."""
    return stored(SUM, "total", tmp_path)


def stored(text: str, name: str, folder: Path) -> Content:
    kernel = getattr(import_files({"main": text}, folder), name)
    kernel(VALUES)
    types = next(iter(kernel._by_types))
    return Content(kernel, types)


def path_of(content: Content, name: str = "total") -> Path:
    user = kernel_store.user_store()
    assert user is not None
    assert content.bytecode is not None
    return user.path(name, content.bytecode)[0]


def check_whole(entry: Path, whole: bytes) -> None:
    """Check the line of the format, the key and the hash; names of symbols differ in the code."""
    head = len(kernel_store._FORMAT) + 65
    content = entry.read_bytes()
    assert content[:head] == whole[:head]
    assert content[head:] == kernel_store._checked(content[head + 65 :])


def check_mended(entry: Path, whole: bytes, folder: Path) -> None:
    """Run the kernel: it is compiled anew, the entry is whole again, and nothing else is there."""
    before = compilations.count
    assert import_files({"main": SUM}, folder).total(VALUES) == 10
    assert compilations.count == before + 1
    assert stat.S_ISREG(entry.lstat().st_mode)
    check_whole(entry, whole)
    assert stat.S_IMODE(entry.stat().st_mode) == 0o644
    assert import_files({"main": SUM}, folder).total(VALUES) == 10
    assert compilations.count == before + 1
    assert {path.suffix for path in entry.parent.iterdir()} == {".kernel"}


def flip_bit(whole: bytes, place: int, _: random.Random) -> bytes:
    return whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]


def fill_block(whole: bytes, place: int, _: random.Random) -> bytes:
    changed = (whole[:place] + b"\xff" * 64 + whole[place + 64 :])[: len(whole)]
    return changed if changed != whole else whole[:-1]


def replace_code(whole: bytes, place: int, random: random.Random) -> bytes:
    head = whole.index(b"\x7fELF")
    return whole[:head] + random.randbytes(place + 1)


#: What happens to a whole entry at a place.
DAMAGES: dict[str, Callable[[bytes, int, random.Random], bytes]] = {
    "truncated": lambda whole, place, _: whole[:place],
    "bit_flipped": flip_bit,
    "filled": fill_block,
    "inserted": lambda whole, place, random: whole[:place] + b"\n" + whole[place:],
    "removed": lambda whole, place, _: whole[:place] + whole[place + 3 :],
    "appended": lambda whole, place, random: whole + random.randbytes(place + 1),
    "code_replaced": replace_code,
    "head_missing": lambda whole, place, _: whole[place + 1 :],
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_at_a_hundred_places__is_never_loaded(
    kind: str, store: Path, content: Content, tmp_path: Path
) -> None:
    entry = path_of(content)
    whole = entry.read_bytes()
    assert kernel_store.load("total", content) is not None
    generator = random.Random(1)  # noqa: S311
    # All of the head, and places in the code.
    places = [*range(0, 200, 4), *sorted(generator.sample(range(200, len(whole)), PLACES - 50))]
    for place in places:
        damaged = DAMAGES[kind](whole, place, generator)
        assert damaged != whole
        entry.write_bytes(damaged)
        assert kernel_store.load("total", content) is None, place
    check_mended(entry, whole, tmp_path)


def replace_with_folder(entry: Path) -> None:
    entry.unlink()
    entry.mkdir()


def replace_with_pipe(entry: Path) -> None:
    entry.unlink()
    os.mkfifo(entry)


def link_to(target: str) -> Callable[[Path], None]:
    def damage(entry: Path) -> None:
        entry.unlink()
        entry.symlink_to(target.format(name=entry.name))

    return damage


def link_to_copy(entry: Path) -> None:
    copy = entry.with_name("copy.kernel")
    entry.rename(copy)
    entry.symlink_to(copy)


def make_huge(entry: Path) -> None:
    with entry.open("r+b") as file:
        file.truncate(2**36)


#: What may be there in place of an entry.
REPLACEMENTS: dict[str, Callable[[Path], None]] = {
    "empty": lambda entry: entry.write_bytes(b"") and None,
    "folder": replace_with_folder,
    "pipe": replace_with_pipe,
    "dangling_link": link_to("missing"),
    "loop_of_links": link_to("{name}"),
    "link_to_a_file_of_root": link_to("/etc/passwd"),
    "link_to_a_copy": link_to_copy,
    "huge": make_huge,
    "writable_by_group": lambda entry: entry.chmod(0o664),
    "writable_by_all": lambda entry: entry.chmod(0o646),
}


@pytest.mark.parametrize("kind", REPLACEMENTS)
def test_replaced_entry__is_compiled_and_written_whole(
    kind: str, store: Path, content: Content, tmp_path: Path
) -> None:
    entry = path_of(content)
    whole = entry.read_bytes()
    REPLACEMENTS[kind](entry)
    assert kernel_store.load("total", content) is None
    check_mended(entry, whole, tmp_path)


def test_entry_of_another_kernel__is_not_loaded(
    store: Path, content: Content, tmp_path: Path
) -> None:
    foreign = path_of(stored(OTHER, "other", tmp_path), "other")
    entry = path_of(content)
    whole = entry.read_bytes()
    entry.write_bytes(foreign.read_bytes())
    check_mended(entry, whole, tmp_path)
    entry.write_bytes(whole.replace(b"kernel 1", b"kernel 0", 1))
    check_mended(entry, whole, tmp_path)


def test_code_that_needs_a_missing_symbol__is_compiled_anew(
    store: Path, content: Content, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import llvmlite.binding as llvm

    kernel_store._linker()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    code = machine.emit_object(
        llvm.parse_assembly(
            f"""declare i8* @no_such_function(i8*)
            define i8* @{kernel_store.ENTRY}(i8* %self, i8** %args, i64 %count) {{
              %result = call i8* @no_such_function(i8* %self)
              ret i8* %result
            }}"""
        )
    )
    entry = path_of(content)
    whole = entry.read_bytes()
    user = kernel_store.user_store()
    assert user is not None
    key = user.path("total", str(content.bytecode))[1]
    entry.write_bytes(kernel_store.file_content(key, code))
    assert kernel_store.load("total", content) is None
    check_mended(entry, whole, tmp_path)
    assert capfd.readouterr().err == ""


def warnings_of_a_run(folder: Path) -> tuple[list[str], int]:
    """Run two new kernels; return warnings and how many were compiled."""
    before = compilations.count
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert import_files({"main": SUM}, folder).total(VALUES) == 10
        assert import_files({"main": OTHER}, folder).other(VALUES) == -10
    assert {one.category for one in caught} <= {RuntimeWarning}
    return [str(one.message) for one in caught], compilations.count - before


END = "; kernels are compiled in each process until FASTRANK_CACHE_DIR names another folder."


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_folder_that_others_can_write__is_not_used(
    depth: int, mode: int, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = store / "one" / "two" / "three"
    folder.mkdir(parents=True)
    use_store(folder, monkeypatch)
    warnings_of_a_run(tmp_path)
    assert len(list(folder.iterdir())) == 2
    unsafe = [folder, *folder.parents][depth]
    unsafe.chmod(mode)
    use_store(folder, monkeypatch)
    text = f"{folder}: must be a folder that only you and root can write, got {unsafe}, which "
    assert warnings_of_a_run(tmp_path) == ([f"{text}others can write{END}"], 2)


def test_folder_in_tmp__is_not_used(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_store(tmp_path / "kernels", monkeypatch)
    caught, compiled = warnings_of_a_run(tmp_path)
    assert len(caught) == 1
    assert compiled == 2
    assert not (tmp_path / "kernels").exists()


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files away")
def test_folder_or_entry_of_another_user__is_not_used(
    store: Path, content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = path_of(content)
    whole = entry.read_bytes()
    os.chown(entry, OTHER_USER, OTHER_USER)
    check_mended(entry, whole, tmp_path)
    assert entry.stat().st_uid == 0
    os.chown(store, OTHER_USER, OTHER_USER)
    use_store(store, monkeypatch)
    caught, compiled = warnings_of_a_run(tmp_path)
    assert caught[0].endswith(f"got {store}, which belongs to another user{END}")
    assert compiled == 2


def test_link_to_a_safe_folder__is_used(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (store / "real").mkdir()
    (store / "link").symlink_to("real")
    use_store(store / "link", monkeypatch)
    assert warnings_of_a_run(tmp_path) == ([], 2)
    assert len(list((store / "real").iterdir())) == 2
    assert warnings_of_a_run(tmp_path) == ([], 0)


def test_names_of_folders__are_read_as_a_shell_does(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store)
    monkeypatch.setenv("HOME", str(store))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    wanted = {
        "relative/here": store / "relative/here",
        "~/cache": store / "cache",
        "": store / ".cache/fastrank_eval",
    }
    for name, folder in wanted.items():
        use_store(name, monkeypatch)
        assert kernel_store.user_folder() == folder
        assert warnings_of_a_run(tmp_path) == ([], 2)
        assert len(list(folder.iterdir())) == 2


def test_current_folder_that_cannot_be_read__does_not_matter(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "is_file", refuse)
        assert kernel_store.numba_settings() == kernel_store.numba_settings()
    gone = store / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    use_store(store / "kernels", monkeypatch)
    assert warnings_of_a_run(tmp_path) == ([], 2)
    use_store("relative", monkeypatch)
    caught, compiled = warnings_of_a_run(tmp_path)
    assert len(caught) == 1
    assert compiled == 2


def test_no_home_folder__compiles_and_says_so_once(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store)
    use_store("~no-such-user/kernels", monkeypatch)
    caught, compiled = warnings_of_a_run(tmp_path)
    wanted = "FASTRANK_CACHE_DIR: must be a folder, got '~no-such-user/kernels', which has no path"
    assert caught == [f"{wanted}{END}"]
    assert compiled == 2
    assert not list(store.iterdir())


def test_file_in_place_of_the_folder__compiles_and_says_so_once(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (store / "file").write_text("text")
    for name in ("file", "file/inside"):
        use_store(store / name, monkeypatch)
        caught, compiled = warnings_of_a_run(tmp_path)
        assert len(caught) == 1
        assert str(store / name) in caught[0]
        assert compiled == 2
    assert (store / "file").read_text() == "text"


def test_folder_removed_while_running__is_made_again(store: Path, tmp_path: Path) -> None:
    folder = store / "kernels"
    with pytest.MonkeyPatch.context() as patch:
        use_store(folder, patch)
        warnings_of_a_run(tmp_path)
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        assert warnings_of_a_run(tmp_path) == ([], 2)
        assert len(list(folder.iterdir())) == 2


def test_folder_made_unsafe_while_running__is_not_written(store: Path, tmp_path: Path) -> None:
    folder = store / "kernels"
    with pytest.MonkeyPatch.context() as patch:
        use_store(folder, patch)
        assert kernel_store.user_store() is not None
        folder.mkdir()
        folder.chmod(0o777)
        caught, compiled = warnings_of_a_run(tmp_path)
        assert len(caught) == 1
        assert "others can write" in caught[0]
        assert compiled == 2
        assert not list(folder.iterdir())


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_masks_of_permissions__store_safe_files(mask: int, store: Path, tmp_path: Path) -> None:
    folder = store / "new" / "kernels"
    old = os.umask(mask)
    try:
        with pytest.MonkeyPatch.context() as patch:
            use_store(folder, patch)
            assert warnings_of_a_run(tmp_path) == ([], 2)
            assert warnings_of_a_run(tmp_path) == ([], 0)
    finally:
        os.umask(old)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o644}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755 & ~mask


def test_full_disk__compiles_and_says_so_once(store: Path, tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    modules = [import_files({"main": text}, tmp_path) for text in (SUM, OTHER)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert [modules[0].total(VALUES), modules[1].other(VALUES)] == [10, -10]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    text = f"{store}: must be a folder that can be written, got File too large{END}"
    assert [str(one.message) for one in caught] == [text]
    assert not list(store.iterdir())


AS_ANOTHER_USER = """
import os, shutil, sys, warnings
sys.path.insert(0, FOLDER)
import numba
import numpy as np
from fastrank_eval._lib import kernel_store
from fastrank_eval._lib.jit import compilations
from main import total, other
# An entry names the version of Numba, and only root may be able to read the environment.
version = shutil.copy(os.path.join(os.path.dirname(numba.__file__), "_version.py"), STORE)
os.chmod(version, 0o644)
numba.__spec__.origin = os.path.join(STORE, "__init__.py")
user_store, kernel_store.user_store = kernel_store.user_store, lambda: None
total(np.arange(5))  # imports all that only root may find
kernel_store.user_store = user_store
before = compilations.count

def show(kernel):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        number = kernel(np.arange(5.0))
    texts = [str(one.message).split(";")[0] for one in caught]
    print(number, compilations.count - before, texts, flush=True)

for folder, mode in ((STORE, 0o644), (STORE, 0o600), ("", 0o644)):
    os.environ.update(FASTRANK_CACHE_DIR=folder, HOME="/", XDG_CACHE_HOME="")
    os.chmod(ENTRY, mode)
    child = os.fork()
    if not child:
        os.setgid(65534)
        os.setuid(65534)
        show(total)
        show(other)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.mark.skipif(not IS_ROOT, reason="only root can become another user")
def test_entries_of_root__serve_another_user(store: Path, content: Content, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SUM + OTHER)
    store.chmod(0o755)
    program = AS_ANOTHER_USER.replace("FOLDER", repr(str(tmp_path)))
    program = program.replace("STORE", repr(str(store)))
    done = run_program(program.replace("ENTRY", repr(str(path_of(content)))), store)
    denied = f"{store}: must be a folder that can be written, got Permission denied"
    no_home = "/.cache/fastrank_eval: must be a folder that can be written, got Permission denied"
    assert done.stdout.splitlines() == [
        "10.0 0 []",
        f"-10.0 1 {[denied]}",
        f"10.0 1 {[denied]}",
        "-10.0 2 []",
        f"10.0 1 {[no_home]}",
        "-10.0 2 []",
    ], done.stderr


EIGHT = """
import os, sys
sys.path.insert(0, FOLDER)
import numpy as np
import fastrank_eval._lib.compiler
from main import total, other
ready, go = os.pipe()
children = []
for _ in range(8):
    child = os.fork()
    if not child:
        os.close(go)
        os.read(ready, 1)
        right = total(np.arange(5.0)) == 10 and other(np.arange(5.0)) == -10
        os._exit(0 if right else 1)
    children.append(child)
os.close(go)
print([os.waitpid(child, 0)[1] for child in children])
"""


def test_eight_processes_at_once__share_an_empty_store(empty_store: Path, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(SUM + OTHER)
    program = EIGHT.replace("FOLDER", repr(str(tmp_path)))
    done = run_program(program, empty_store / "kernels")
    assert done.stdout == f"{[0] * 8}\n", done.stderr
    assert done.stderr == ""
    entries = list((empty_store / "kernels").iterdir())
    assert {entry.name.partition("-")[0] for entry in entries} == {"total", "other"}
    assert len(entries) == 2
    for entry in entries:
        check_whole(entry, entry.read_bytes())


def test_owners_that_cannot_be_checked__turn_the_store_off(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "geteuid")
    monkeypatch.delenv("FASTRANK_CACHE_DIR")
    kernel_store.user_store.cache_clear()
    assert warnings_of_a_run(tmp_path) == ([], 2)
    use_store(store, monkeypatch)
    assert warnings_of_a_run(tmp_path) == ([], 2)
    assert warnings_of_a_run(tmp_path) == ([], 0)


def test_code_that_links_nowhere__is_compiled_by_numba(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_store, "link", lambda code: None)
    module: ModuleType = import_files({"main": SUM}, tmp_path)
    assert [module.total(VALUES) for _ in range(3)] == [10, 10, 10]
    assert module.total(VALUES.astype(int)) == 10
    assert compiler.numba_function(module.total)(VALUES) == 10


def test_commands__show_the_warning_as_one_line(store: Path) -> None:
    program = """
from fastrank_eval.apps.cli.shell import prepare_process
from fastrank_eval._lib import kernel_store
prepare_process()
kernel_store.warn_unsafe("/srv/kernels\\n", "/srv, which others can write")
kernel_store.warn_unsafe("/srv/more", "/srv, which others can write")
"""
    done = run_program(program, store)
    text = "/srv/kernels\\n: must be a folder that only you and root can write, got /srv, which "
    assert done.stderr == f"warning: {text}others can write{END}\n"
