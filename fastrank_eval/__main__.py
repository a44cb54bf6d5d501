"""``python -m fastrank_eval``: the same as the command ``fastrank-eval``."""

from fastrank_eval.cli import main

if __name__ == "__main__":
    main()
