"""Compile kernels with Numba, and store their machine code.

Only a process that lacks machine code imports this file, because importing Numba takes half a
second.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, typeof, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUTargetOptions
from numba.core.registry import cpu_target
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from fastrank_eval._lib import kernel_store
from fastrank_eval._lib.errors import OutputError
from fastrank_eval._lib.files import atomic_path

#: Features of Numba that no kernel uses: calls from C, rewriting of array expressions, reference
#: counts (kernels make no arrays). Without them compiling takes a sixth less time. Not all are
#: documented, so a release of Numba may lack one.
_DISABLE = {"no_cfunc_wrapper": True, "no_rewrites": True, "_nrt": False}
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"} | {
    name: value for name, value in _DISABLE.items() if hasattr(CPUTargetOptions, name)
}

_INT8, _INT32, _INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_BYTES = _INT8.as_pointer()

#: Where CPython and NumPy keep what an entry point reads, in bytes. The layouts of all are public.
_OBJECT_TYPE, _SCALAR_VALUE = 8, 16
_DATA, _DIMENSIONS, _SHAPE, _STRIDES, _DTYPE, _FLAGS = 16, 24, 32, 40, 56, 64

#: NumPy's flags of arrays.
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400


@functools.cache
def numba_function(kernel: Any) -> Any:
    """Compile a kernel for arguments that no entry point reads."""
    return njit(**_OPTIONS)(kernel.loop)


def _dispatcher(kernel: Any) -> Any:
    """Return the function that Numba compiles.

    Numba reads constants once, so other constants make another function.
    """
    return _dispatcher_of(kernel, kernel.content())


@functools.cache
def _dispatcher_of(kernel: Any, _content: str | None) -> Any:
    return njit(**_OPTIONS, no_cpython_wrapper=True, forceinline=kernel.inlined)(kernel.loop)


def type_of(kernel: Any) -> Any:
    """Return the type of a kernel in the code of another function."""
    return types.Dispatcher(_dispatcher(kernel))


@intrinsic
def _call(typing, address, args):  # type: ignore[no-untyped-def]
    """Call a native kernel; `args` are of its types."""
    kinds = tuple(args)

    def write(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = context.call_conv.get_function_type(types.none, kinds)
        function = builder.inttoptr(values[0], kind.as_pointer())
        natives = cgutils.unpack_tuple(builder, values[1], len(kinds))
        status, _ = context.call_conv.call_function(builder, function, types.none, kinds, natives)
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.none(address, args), write


def type_of_call() -> Any:
    """Return the type of `jit.call_by_address` in the code of a kernel."""
    return cpu_target.typing_context.resolve_value_type(_call)


def compile_kernel(kernel: Any, args: tuple[Any, ...], content: Any) -> int | None:
    """Compile a kernel for types of arguments, and store it.

    Parameters
    ----------
    kernel : jit.Kernel
    args : tuple
        Arguments of the types.
    content : jit.Content
        Code of unknown content is not stored.

    Returns
    -------
    int or None
        The address of the entry point. None if no entry point can be made.
    """
    if config.DISABLE_JIT:  # since the kernel was defined
        return None
    try:
        code = bytes(library_of(kernel, args)._get_compiled_object())
    except _NoEntryPoint:
        return None
    _store(kernel.loop.__name__, content.bytecode, code)
    return kernel_store.link(code)


def _numba_type(argument: Any) -> Any:
    if not isinstance(argument, np.ndarray):
        return typeof(argument)
    flags = argument.flags
    return types.Array(
        typeof(argument).dtype,
        argument.ndim,
        "C" if flags.c_contiguous else "A",
        readonly=not flags.writeable,
        aligned=flags.aligned,
    )


def _store(name: str, content: str | None, code: bytes) -> None:
    """Write machine code to the user's store, whole or not at all."""
    store = kernel_store.user_store()
    if store is None or content is None:
        return
    path, key = store.path(name, content)
    try:
        _make_folders(store.folder)
        problem = kernel_store.why_unsafe(store.folder)
        if problem:
            kernel_store.warn_unsafe(store.folder, problem)
            return
        # No store could read what is there.
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        with atomic_path(path, mode=0o600) as temporary:
            temporary.write_bytes(kernel_store.file_content(key, code))
            temporary.chmod(0o644)
    except (OSError, OutputError) as error:
        cause = error.__cause__ or error
        reason = getattr(cause, "strerror", None) or cause
        kernel_store.warn_once(
            f"{store.folder}: must be a folder that can be written, got {reason}"
        )


def _make_folders(folder: Path) -> None:
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=0o755, exist_ok=True)


@global_compiler_lock  # type: ignore[untyped-decorator]
def library_of(kernel: Any, args: tuple[Any, ...]) -> Any:
    """Compile a kernel, all that it calls, and its entry point.

    Parameters
    ----------
    kernel : jit.Kernel
    args : tuple
        Arguments of the types.

    Returns
    -------
    numba.core.codegen.CodeLibrary
    """
    argtypes = tuple(map(_numba_type, args))
    dispatcher = _dispatcher(kernel)
    dispatcher.compile(argtypes)
    compiled = dispatcher.overloads[argtypes]
    if isinstance(compiled.signature.return_type, types.Optional):
        raise _NoEntryPoint
    library = cpu_target.target_context.codegen().create_library(kernel.loop.__name__)
    library.enable_object_caching()
    module = library.create_ir_module(kernel.loop.__name__)
    if kernel.native:
        _write_alias(module, compiled)
    else:
        _EntryPoint(module, compiled, args).build()
        # The kernel is optimized already. Releases of Numba without this method do it once more.
        library._optimize_final_module = lambda: None
    library.add_ir_module(module)
    library.add_linking_library(compiled.library)
    library.finalize()
    return library


def _write_alias(module: Any, compiled: Any) -> None:
    """Write a function of the name of entry points that kernels call."""
    own = cpu_target.target_context.declare_function(module, compiled.fndesc)
    function = ir.Function(module, own.function_type, kernel_store.ENTRY)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    builder.ret(builder.call(own, function.args))


class _NoEntryPoint(Exception):
    """No entry point returns a number or None."""


class _EntryPoint:
    """Builds the function that Python calls.

    It reads the arguments and calls the kernel. `kernel_store.entry_point` passes an array as
    `self`: the type of each argument, the dtype of each array, None, NotImplemented, True and
    IndexError. A tuple would not do: CPython 3.14 has its items at another place.
    """

    def __init__(self, module: Any, compiled: Any, args: tuple[Any, ...]) -> None:
        signature = ir.FunctionType(_BYTES, [_BYTES, _BYTES.as_pointer(), _INT64])
        self.function = ir.Function(module, signature, kernel_store.ENTRY)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))
        self.context = cpu_target.target_context
        self.python = self.context.get_python_api(self.builder)
        self.kernel = self.context.declare_function(module, compiled.fndesc)
        self.scalars = [type(argument) for argument in args]
        self.types = compiled.signature.args
        self.result = compiled.signature.return_type

    def build(self) -> None:
        """Write the instructions."""
        builder, count = self.builder, len(self.types)
        objects, args = self._field(self.function.args[0], _DATA), self.function.args[1]
        none, refuse, true, error = (self._item(objects, 2 * count + k) for k in range(4))
        other = self.function.append_basic_block("other")
        self._require(self._equal(self.function.args[2], _INT64(count)), other)
        values = [builder.load(builder.gep(args, [_INT64(k)])) for k in range(count)]
        for k, kind in enumerate(self.types):
            self._require(
                self._same(self._field(values[k], _OBJECT_TYPE), self._item(objects, k)), other
            )
            if isinstance(kind, types.Array):
                dtype = self._item(objects, count + k)
                self._require(self._same(self._field(values[k], _DTYPE), dtype), other)
                self._require(self._has_layout(values[k], kind), other)
        natives = [
            self._integer(value, other)
            if scalar is int
            else self._native(value, kind, scalar, true)
            for value, kind, scalar in zip(values, self.types, self.scalars, strict=True)
        ]
        thread = self.python.save_thread()
        status, result = self.context.call_conv.call_function(
            builder, self.kernel, self.result, self.types, natives
        )
        self.python.restore_thread(thread)
        with builder.if_then(status.is_error, likely=False):
            self.python.err_set_string(error, "a kernel read or wrote outside an array")
            builder.ret(ir.Constant(_BYTES, None))
        if self.result == types.none:
            self._return(none)
        else:
            builder.ret(self.python.from_native_value(self.result, result))
        builder.position_at_end(other)
        self._return(refuse)

    def _native(self, value: Any, kind: Any, scalar: type, true: Any) -> Any:
        """Return an argument as the kernel takes it."""
        if isinstance(kind, types.Array):
            return self._array(value, kind)
        if kind == types.none:
            return self.context.get_dummy_value()
        if scalar is bool:
            return self._same(value, true)
        if scalar is np.bool_:
            return cgutils.is_not_null(self.builder, self._field(value, _SCALAR_VALUE, _INT8))
        return self._field(value, _SCALAR_VALUE, self.context.get_data_type(kind))

    def _integer(self, value: Any, other: Any) -> Any:
        """Return a Python integer; one of more than 64 bits has another type."""
        native = self.python.long_as_longlong(value)
        failed = cgutils.is_not_null(self.builder, self.python.err_occurred())
        with self.builder.if_then(failed, likely=False):
            self.python.err_clear()
            self.builder.branch(other)
        return native

    def _array(self, value: Any, kind: Any) -> Any:
        array = make_array(kind)(self.context, self.builder)
        shape, strides = self._field(value, _SHAPE), self._field(value, _STRIDES)
        populate_array(
            array,
            data=self.builder.bitcast(self._field(value, _DATA), array.data.type),
            shape=[self._field(shape, 8 * k, _INT64) for k in range(kind.ndim)],
            strides=[self._field(strides, 8 * k, _INT64) for k in range(kind.ndim)],
            itemsize=_INT64(self.context.get_abi_sizeof(self.context.get_data_type(kind.dtype))),
            meminfo=None,
        )
        return array._getvalue()

    def _has_layout(self, value: Any, kind: Any) -> Any:
        contiguous = _CONTIGUOUS * (kind.layout == "C")
        wanted = _ALIGNED * kind.aligned | contiguous | _WRITEABLE * kind.mutable
        # All flags count, so the order of calls does not decide which kernels a store gets.
        mask = _CONTIGUOUS | _ALIGNED | _WRITEABLE
        flags = self.builder.and_(self._field(value, _FLAGS, _INT32), _INT32(mask))
        dimensions = self._field(value, _DIMENSIONS, _INT32)
        return self.builder.and_(
            self._equal(flags, _INT32(wanted)), self._equal(dimensions, _INT32(kind.ndim))
        )

    def _field(self, base: Any, offset: int, kind: Any = _BYTES) -> Any:
        place = self.builder.gep(base, [_INT64(offset)])
        return self.builder.load(self.builder.bitcast(place, kind.as_pointer()))

    def _item(self, objects: Any, position: int) -> Any:
        return self._field(objects, 8 * position)

    def _same(self, one: Any, other: Any) -> Any:
        return self._equal(self.builder.ptrtoint(one, _INT64), self.builder.ptrtoint(other, _INT64))

    def _equal(self, one: Any, other: Any) -> Any:
        return self.builder.icmp_unsigned("==", one, other)

    def _require(self, condition: Any, other: Any) -> None:
        """Go on if the condition holds, else to another block."""
        block = self.function.append_basic_block()
        self.builder.cbranch(condition, block, other)
        self.builder.position_at_end(block)

    def _return(self, value: Any) -> None:
        self.python.incref(value)
        self.builder.ret(value)
