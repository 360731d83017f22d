"""Instances: built-in ones, generators, importers of traces, shipped samples."""
