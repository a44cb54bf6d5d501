"""Run `fastrank_eval.apps.demo.month`: ``python -m data_gen.month``."""

from fastrank_eval.apps.demo.month import main

if __name__ == "__main__":
    main()
