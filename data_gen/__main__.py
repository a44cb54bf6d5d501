"""Write a click log: ``python -m data_gen``."""

from fastrank_eval.apps.demo.__main__ import main

if __name__ == "__main__":
    main()
