"""Curves as pictures, drawn by matplotlib: PNG, SVG, or a page that needs nothing but itself."""

from fastrank_eval.pictures.files import SUFFIXES, check_picture, draw_file

__all__ = ["SUFFIXES", "check_picture", "draw_file"]
