"""Run the command of small files: ``python -m data_gen.samples``."""

from fastrank_eval.apps.demo.examples import samples_command

if __name__ == "__main__":
    samples_command()
