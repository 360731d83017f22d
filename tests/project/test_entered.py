"""The list of functions that no test enters: how functions are found in a file, and what is said of the list."""

from coverage import CoverageData

from tests import entered

SOURCE = '''
class A:
    """A class."""

    def first(self):
        """Return one."""
        return 1

    def nothing(self) -> int:
        """Say nothing."""
        ...


@compiled
def kernel(x):
    return x


def outer():
    def inner():
        return 2

    return 3
'''


def test_functions_with_a_body_are_found_and_kernels_are_not():
    assert dict(entered.functions(SOURCE)) == {"A.first": {7}, "outer": {20, 21, 23}, "outer.inner": {21}}


def test_a_function_is_entered_where_a_line_of_it_ran(tmp_path, monkeypatch):
    (tmp_path / "package").mkdir()
    file = tmp_path / "package" / "file.py"
    file.write_text(SOURCE)
    monkeypatch.setattr(entered, "ROOT", tmp_path)
    monkeypatch.setattr(entered, "packages", lambda: ["package"])
    for k, ran in enumerate(([7], [20, 23])):
        data = CoverageData(str(tmp_path / f"coverage.{k}"))
        data.add_lines({str(file): ran})
        data.write()
    assert entered.never_entered(entered.combined(tmp_path)) == {"package/file.py:outer.inner"}


def test_the_list_may_only_shrink():
    said = entered.complaints({"a.py:new", "a.py:known"}, {"a.py:known", "a.py:old"})
    assert [line.split()[:6] for line in said] == [
        ["no", "test", "of", "make", "test", "enters"], ["a.py:old", "is", "entered,", "or", "gone:", "take"],
    ]  # fmt: skip


def test_the_list_is_sorted_and_each_function_of_it_is_there():
    names = list(entered.listed())
    assert names == sorted(names)
    there = {
        f"{file.relative_to(entered.ROOT).as_posix()}:{name}"
        for package in entered.packages()
        for file in (entered.ROOT / package).rglob("*.py")
        for name, _ in entered.functions(file.read_text(encoding="utf-8"))
    }
    assert set(names) <= there
