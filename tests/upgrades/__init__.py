"""Tests of files that earlier versions wrote."""
