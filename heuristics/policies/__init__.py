"""The policies, a file for each paper or engine, and the bases that several of them share."""
