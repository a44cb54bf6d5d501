"""The programs of this folder need griffe and build, which only their own environment has."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("griffe") else ["check.py", "public_api.py"]
