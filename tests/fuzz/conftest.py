"""Files that need the extra `fuzz`, which `make test` does without."""

collect_ignore = ["instrumented.py", "properties.py"]
