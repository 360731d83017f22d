"""Performance, measured side by side in one run; nothing here is a test. Run all with `make bench`."""
