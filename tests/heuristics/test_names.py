"""Names of policies with parameters: each gives the policy of that name, and what is wrong with one is a line."""

import re

import pytest

from heuristics import get_policy
from kvcore import BadInput

WHOLE = """
deadline deadline:flow=18 deadline:flow=18,token=0.02 deadline:token=0.02 knee knee:means=3 knee:means=0.5
on-time on-time:share=0.8 on-time:pace=1 on-time:share=0.8,pace=1 on-time:short=10,wait=0.2
on-time:ttft=2,latency=9 index index:group=0 index:r0=0,group=2 index:r0=1e-06 staggered staggered:6,49
"""


@pytest.mark.parametrize("name", WHOLE.split())
def test_a_name_gives_the_policy_again(name):
    assert get_policy(name).name == name


def test_numbers_without_names_are_in_order():
    assert (get_policy("staggered:6,49").size, get_policy("staggered:6,49").gap) == (6, 49)


SETTINGS = "watermark, long_prefill_token_threshold"
REFUSED = {
    "deadline:": "flow is a number of at least 1e-06, not ''",
    "deadline:flow=0": "flow is a number of at least 1e-06, not '0'",
    "deadline:token=inf": "token is a number of at least 1e-06, not 'inf'",
    "deadline:r0=1": "no setting of deadline is called 'r0'; there are flow, token",
    "deadline:flow=1,token": "token is a number of at least 1e-06, not ''",
    "deadline:flow=1,flow=2": "flow is given twice",
    "knee:r0=3": "no setting of knee is called 'r0'; there are means",
    "on-time:share=0": "share is a number of at least 1e-06, not '0'",
    "index:r0=-1": "r0 is a number of at least 0, not '-1'",
    "index:beta=1": "no setting of index is called 'beta'; there are r0, group",
    "index:r0=1,3": "no setting of index is called '3'; there are r0, group",
    "staggered:0,4": "size is an integer of at least 1 and at most 1e+09, not '0'",
    "random:x": "seed is an integer of at least 0, not 'x'",
    "wait:2": "WAIT is wait:N,COUNT (the threshold, and how many requests will come), not 'wait:2'",
    "vllm-v1:watermark=2": "watermark is a number of at least 0 and at most 1, not '2'",
    "vllm-v1:watermark=nan": "watermark is a number of at least 0",
    "vllm-v1:threshold=0.5": "long_prefill_token_threshold is an integer of at least 0, not '0.5'",
    "vllm-v1:beta=1": f"no setting of vllm-v1 is called 'beta'; there are {SETTINGS}",
    "vllm-v1:seqs=1,max_num_seqs=2": "max_num_seqs is given twice",
    "vllm-v1:victim=first": "victim is one of last, least-computed, most-blocks, longest, not 'first'",
    "sglang:ratio": "new_token_ratio is a number",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(BadInput, match=re.escape(REFUSED[name])):
        get_policy(name)
