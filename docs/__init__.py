"""The pages, and in `make` the scripts that write some of them."""
