"""Run `fastrank_eval.apps.demo.samples`: ``python -m data_gen.samples``."""

from fastrank_eval.apps.demo.samples import main

if __name__ == "__main__":
    main()
