"""Run the command of a month of nights: ``python -m data_gen.month``."""

from fastrank_eval.apps.demo.examples import month_command

if __name__ == "__main__":
    month_command()
