"""`python -m docs.make`: write the generated pages and pictures."""

from docs.make import write_all

if __name__ == "__main__":  # a picture may be made by a worker process, which imports this file again
    for path in write_all():
        print(path)
