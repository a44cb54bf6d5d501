"""Runs one target under Atheris: ``python -m tests.fuzz.instrumented TARGET [libFuzzer options]``.

The JIT must be off: kernels are then traced as the rest of the package is.
"""

from __future__ import annotations

import random
import sys

import atheris


def main(target: str, options: list[str]) -> None:
    """Run until a limit of libFuzzer, or until an input fails."""
    with atheris.instrument_imports(include=["fastrank_eval"]):
        from tests.forged_states import forged
        from tests.fuzz import targets

    def mutate_state(content: bytes, max_size: int, seed: int) -> bytes:
        """Change a part of a state that can be read, or any of its bytes."""
        rng = random.Random(seed)  # noqa: S311
        if rng.random() < 0.7:
            try:
                changed = forged(targets.with_digest(content), rng)
            except Exception:
                changed = b""
            if 0 < len(changed) <= max_size:
                return changed
        return bytes(atheris.Mutate(content, max_size))

    mutator = {"custom_mutator": mutate_state} if target == "state" else {}
    run = targets.TARGETS[target]
    targets.a_state()
    atheris.Setup([sys.argv[0], *options], run, **mutator)
    targets.limit_memory()
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
