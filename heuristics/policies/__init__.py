"""The policies, one a file, and the bases that several of them share."""
