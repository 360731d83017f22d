"""What led to a label."""

from kvcore.certificates.labels import NO, Labels


def path(x: Labels, at: int) -> list[int]:
    """Return the rows from the first label to one."""
    rows = [at]
    while x.parent[rows[-1]] != NO:
        rows.append(int(x.parent[rows[-1]]))
    return rows[::-1]
