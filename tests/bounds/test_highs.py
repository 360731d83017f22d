"""HiGHS, as we use it, leaves standard output alone."""

from bounds.highs import Silent


def test_it_prints_nothing(capfd):
    highs = Silent(threads=1)
    highs.addVar(0.0, 1.0)
    highs.run()
    assert highs.getOptionValue("threads")[1] == 1
    assert capfd.readouterr().out == ""
