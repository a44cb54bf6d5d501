"""Tests of the schemas of JSON documents."""
