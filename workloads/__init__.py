"""Instances: built-in, generated, imported, and shipped samples."""
