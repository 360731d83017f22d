"""Integer coefficients: exact where they can be, and otherwise no batch is further off than is said."""

import random
from fractions import Fraction

import pytest

from costmodels.rounding import EXACT, PRECISION, Function, longest, rounded
from kvcore import BadInput
from kvcore.cost import Cost, CostFunction, Features, TokensAbove
from kvcore.instance import LIMIT
from tests.support.few import few

NANOSECOND = Fraction(1, 10**9)


def a_function(draw, scale):
    names = draw.sample([*Features._fields, "tokens_above"], draw.randint(1, 6))
    return Function({name: Fraction(1 - draw.random()) * Fraction(10) ** -draw.randint(1, scale) for name in names}, 37)


def a_batch(draw):
    flags = [draw.randint(0, 1) for _ in range(3)]
    return Features(*flags, *(draw.randint(0, 10 ** draw.randint(0, 8)) for _ in Features._fields[3:]))


@pytest.mark.parametrize("seed", few(range(40)))
def test_no_batch_is_further_off_than_stated(seed):
    draw = random.Random(seed)
    scale = 6 if seed % 2 else 13
    functions = [a_function(draw, scale) for _ in range(draw.randint(1, 3))]
    tick = Fraction(1, 10 ** draw.randint(3, 10))
    made = rounded(functions, tick)
    assert made.error <= (PRECISION if scale == 6 else 1)  # 13 powers of ten are too many for a file
    for batch in (a_batch(draw) for _ in range(25)):
        exact = max(Fraction(1), longest(functions, batch) / tick)
        assert (1 - made.error) * exact <= made.cost.duration(batch) < (1 + made.error) * exact + 1


def test_the_stated_error_is_that_of_the_worst_coefficient():
    """A third of a microsecond and pi, too long for an exact divisor: each is compared with what is written."""
    pi = Fraction(3141592653589793238, 10**24)
    made = rounded([Function({"busy": pi, "tokens": Fraction(1, 3 * 10**6)})], NANOSECOND)
    (function,) = made.cost.functions
    off = [abs(Fraction(c, function.divisor) * NANOSECOND / exact - 1)
           for c, exact in ((function.busy, pi), (function.tokens, Fraction(1, 3 * 10**6)))]  # fmt: skip
    assert made.error == max(off) > 0


def test_small_fractions_stay_exact():
    made = rounded([Function({"busy": Fraction(7, 3000), "tokens": Fraction(1, 7000)})], Fraction(1, 1000))
    assert made.cost == Cost((CostFunction(divisor=21, busy=49, tokens=3),))
    assert made.error == 0


def test_the_hinge_keeps_its_knee():
    function = Function({"busy": Fraction(2), "tokens_above": Fraction(1, 2)}, 100)
    made = rounded([function], Fraction(1))
    assert made.cost.functions[0].tokens_above == TokensAbove(knee=100, coefficient=1)
    assert [made.cost.duration(Features(busy=1, tokens=n)) for n in (99, 100, 101, 102, 104)] == [2, 2, 3, 3, 4]


def test_a_sum_of_functions_keeps_the_hinge():
    function = Function({"busy": Fraction(2), "tokens_above": Fraction(1, 2)}, 10).plus(Function({"busy": Fraction(1)}))
    assert function.value(Features(busy=1, tokens=14)) == 5


def test_precision_gives_way_to_the_limits_of_a_file_and_says_so():
    """Coefficients 10^14 ticks apart: the small one cannot be precise within 10^15, and the error says by how much."""
    made = rounded([Function({"busy": Fraction(10**14), "tokens": Fraction(1, 7)})], Fraction(1))
    (function,) = made.cost.functions
    assert max(function.busy, function.divisor) <= LIMIT
    assert PRECISION < made.error == abs(Fraction(function.tokens, function.divisor) * 7 - 1)


def test_numbers_are_no_larger_than_they_need_be():
    made = rounded([Function({"busy": Fraction(0.1), "tokens": Fraction(1e-6)})], NANOSECOND)
    (function,) = made.cost.functions
    assert function.divisor == 1000  # 1000 ns a token, off by at most a millionth: a thousandth of a tick does
    assert max(function.busy, function.divisor) <= EXACT


def test_a_function_of_nothing_is_left_out_and_a_cost_of_nothing_refused():
    nothing = Function({"busy": Fraction(0)})
    assert len(rounded([nothing, Function({"busy": Fraction(1)})], Fraction(1)).cost.functions) == 1
    with pytest.raises(BadInput, match="every coefficient of the cost is 0; a batch has to take time"):
        rounded([nothing], Fraction(1))


def test_a_tick_that_is_too_short_is_refused():
    with pytest.raises(BadInput, match=r"a coefficient is 1e\+18 ticks of 1/10+ s, at most 1e\+15: take a longer tick"):
        rounded([Function({"busy": Fraction(1)})], Fraction(1, 10**18))
