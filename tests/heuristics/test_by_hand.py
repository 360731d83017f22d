"""Policies on instances that a reader schedules by hand: batch by batch, or who is done when.

Requests: `id prompt decode.. [@arrival] [w weight] [n max_new] [ttft, latency or tpot of its SLO]`; a decode that ends
with a call is `decode/duration+returns` and the first letter of a handling (free, if none). Of each policy the first
batches, with work `A2`, drops `-A2`, swaps out `>A2` and in `<A2`, perhaps `start:`, or `*` for any; with `.` at the
end they are all. Those of `vllm-v1-prefix` run on `own` of the instance. Or completions, `A=4 B=7`, or how calls are
handled, `A/1=swap`.
"""

from fractions import Fraction
from typing import Any

import pytest

from heuristics import get_policy, trace_policy
from kvcore import Cost, CostFunction, Instance, Machine
from kvcore.metrics import completions, handlings
from tests.support.build import moves_of, requests_of
from workloads.own import own

Row = tuple[str, dict[str, Any], dict[str, str]]
ROOFLINE = ({"busy": 8, "decode_kv": 1}, {"tokens": 2})
"""Weights of 8 ticks and the KV that is read, beside 2 ticks a token."""
TOKENS = ({"busy": 2, "tokens": 1},)
DEAR = ({"busy": 1, "decode_kv": 9}, {"tokens": 1})
TICKS = ({"tokens": 1},)
HINGED = ({"busy": 8, "tokens_above": {"knee": 3, "coefficient": 5}},)
CUT = ({"tokens_above": {"knee": 2, "coefficient": 1}, "prefill_kv": 1},)
BESIDE = ({"busy": 4, "tokens": 1}, {"swap_out_tokens": 2, "swap_in_tokens": 2})
ADDED = ({"busy": 4, "tokens": 1, "swap_out_tokens": 2, "swap_in_tokens": 2},)
SWAPPING = ({"busy": 1}, {"swap_out_tokens": 2, "swap_in_tokens": 2})
ALONE = {"host_memory": 0, "batch_tokens": 8, "partial": True, "cost": BESIDE}
TABLE_1 = "A 3 3; B 4 2 @1; C 3 2 @1"

HAND = {
    # --- vLLM V1
    # A calls with 4 tokens of KV. B, meanwhile, takes the memory of 2
    "vllm-v1: freed blocks are found again where nobody took them": (
        "A 4 1/2+1 1; B 6 1 @1", {"memory": 8, "partial": True},
        {"vllm-v1": "A4 | B6 -A4 | A6.", "vllm-v1-prefix": "A4 | B6 -A4 | A4."}),
    # C (3) is preempted with a token of KV, then A ends: B takes that token all the same; C comes back with 3 missing
    "vllm-v1: what an ended request leaves is taken after what was freed before": (
        "B 6 5; A 1 2 @3; C 3 3 @3", {"memory": 12, "batch_tokens": 3, "partial": True},
        {"vllm-v1-prefix": "* | * | * | * | B1 A1 -C1 | B1 | C3"}),
    # a fifth of 10 blocks (a null block counts) stays free as B joins A
    "vllm-v1: settings": ("A 4 2; B 4 2", {"memory": 9}, {
        "vllm-v1": "A4 B4", "vllm-v1:max_num_seqs=1": "A4", "vllm-v1:long_prefill_token_threshold=3": "A3 B3",
        "vllm-v1:threshold=3,seqs=1": "A3", "vllm-v1:watermark=0.2": "A4"}),
    # both hold 8 of 8, and A needs one more
    "vllm-v1: victims": ("A 5 3; B 3 3", {"memory": 8}, {
        "vllm-v1": "* | A1 -B3", "vllm-v1:victim=least-computed": "* | A1 -B3",
        "vllm-v1:victim=most-blocks": "* | B1 -A5", "vllm-v1:victim=longest": "* | B1 -A5"}),
    "vllm-v1: the least computed is the first": ("A 3 3; B 5 3", {"memory": 8}, {
        "vllm-v1": "* | A1 -B5", "vllm-v1:victim=least-computed": "* | B1 -A3"}),
    # A's call begins at 1 with 4 of 11; B (6) waits beside C until the TTL is over, or A is back behind B
    "vllm-v1: a TTL holds KV against those that wait": ("A 4 1/3 1; C 1 9; B 6 1 @1", {"memory": 11}, {
        "vllm-v1": "* | C1 B6 -A4", "vllm-v1:ttl=2": "* | C1 | C1 | C1 B6 -A4",
        "vllm-v1:ttl=9": "* | C1 | C1 | C1 | C1 B6 -A4"}),
    "vllm-v1: KV held by a TTL goes before a running request is preempted": ("A 4 1/9 1; C 1 5", {"memory": 7}, {
        "vllm-v1:ttl=8": "* | C1 | C1 | C1 -A4"}),
    "vllm-v1: where none runs, KV held by a TTL goes for the first": ("A 4 1/9 1; B 6 1 @1", {"memory": 8}, {
        "vllm-v1:ttl=8": "A4 | B6 -A4"}),
    # every 3 tokens count a weight less: B, of weight 2 with 6 tokens, is A's equal with 4, and goes as it came later
    "vllm-v1: contexts age": ("A 3 3; B 5 3 w2", {"memory": 8}, {
        "vllm-v1-priority": "* | B1 -A3", "vllm-v1-priority:aging=3": "* | A1 -B5"}),
    "vllm-v1: a lone request has no threshold": ("A 4 2", {"memory": 9}, {
        f"vllm-v1{more}": "A4" for more in ("", ":long_prefill_token_threshold=3", ":threshold=3,seqs=1",
                                            ":watermark=0.2")}),
    # A prefills in batch 0, so B, which comes in it, is held until batch 3; with C left behind, the next is not
    "vllm-v1: prefills are batches apart": (
        "A 2 9; B 2 9 @1; C 2 9 @1", {"batch_tokens": 3},
        {"vllm-v1:prefill_schedule_interval=3": "A2 | A1 | A1 | A1 B2 | A1 B1 C1"}),
    # after five batches both hold 10 of 20. B decodes, so A's last prompt token is held, and B preempts itself. Nobody
    # decodes then: A goes on. B, alone, prefills its 11 tokens at once; with caching only two of them
    "vllm-v1: after a step that only preempts prefills are held anew": (
        "A 11 1; B 10 2", {"memory": 20, "batch_tokens": 40, "batch_requests": 2, "partial": True}, {
            f"{name}:threshold=2,prefill_schedule_interval=2": " | ".join(["A2 B2"] * 5) + f" | A1 -B10 | B{again}."
            for name, again in (("vllm-v1", 11), ("vllm-v1-priority", 11), ("vllm-v1-async", 11),
                                ("vllm-v1-prefix", 2))}),
    # A frees 3 tokens, then B 5. C (9) takes all of A and the end of B, which comes back to the other 3. C ends;
    # A takes the other 3 of B first, as they were freed before the 9 of C
    "vllm-v1: the longest freed goes first from its end": (
        "A 3 1/20 1; B 4 2/30 1; C 9 1 @2", {"memory": 12, "partial": True}, {
            "vllm-v1-prefix": "A3 B4 | B1 -A3 | C9 -B5 | A4 | B6."}),
    # of 6 tokens in blocks of 4 it finds 4
    "vllm-v1: an incomplete block is not found again": (
        "A 6 1/2+1 1", {"memory": 40, "block": 4, "partial": True}, {"vllm-v1-prefix": "A6 | A4 -A6."}),
    # --- SGLang
    # A runs with 4 of 10 tokens of KV, 9 left of its limit: B needs 4 + 5 + 1 < free - share x 9
    **{f"sglang: admission leaves a share of the limits, {name}, M = {memory}": (
        "A 4 9 n10; B 4 5 @1 n5", {"memory": memory}, {name: f"A4 | {then}"})
       for name, joins in (("sglang", 21), ("sglang:ratio=0.7", 21), ("sglang:ratio=0.5", 19),
                           ("sglang:conservativeness=0.5", 18))
       for memory, then in ((joins - 1, "A1"), (joins, "B4"))},
    # A may yet generate 9. B's 4 + 5 + 1 are less than 17 - 0.7 x 9, and not less than 17 - 9
    "sglang: requests of fixed length keep their whole limits free": (
        "A 4 9 n10; B 4 5 @1 n5", {"memory": 21}, {"sglang": "* | B4", "sglang:ignore_eos=1": "* | A1"}),
    # A (3, limit 12) is clipped to 8 - 3 - 1 - 1 = 3; B's 1 + 1 + 1 fit beside 0.7 of it in the 5 left
    "sglang: the limit is what memory has beside the pages of the prompt": (
        "A 3 3 n12; B 1 1 n1", {"memory": 8, "prefill_tokens": 16}, {"sglang": "A3 | B1"}),
    # P = 2: J's second chunk leaves K no token. K is prefilled in the next batch, and not after R has left
    "sglang: a cut prompt that takes all of a batch does not close the queue": (
        "R 1 3 n3; J 4 2 @1 n2; K 1 1 @1 n1", {"memory": 11, "prefill_tokens": 2},
        {"sglang": "R1 | J2 | J2 | K1 | R1 J1"}),
    # --- TensorRT-LLM
    # A's token suspends B, and C (3) waits behind it; B comes back for a token when A is done
    "trtllm: v2 suspends the last started to the host": ("A 4 3; B 4 3; C 3 1 @1", {"memory": 8, "host_memory": 4}, {
        "trtllm-v2": "A4 B4 | A1 >B4 | A1 | B1 C3 <B4 | B1."}),
    "trtllm: v2 drops what the host does not take": ("A 4 3; B 4 3; C 3 1 @1", {"memory": 8, "host_memory": 3}, {
        "trtllm-v2": "A4 B4 | A1 -B4 | A1 | B5 C3 | B1."}),
    # A's call swaps 3 tokens, and the host has 3 of B, which C keeps from coming back
    "trtllm: v2 drops suspended KV for what a call swaps": (
        "A 2 2/1s 1; C 4 5; B 3 3", {"memory": 9, "host_memory": 3},
        {"trtllm-v2": "A2 C4 B3 | A1 C1 >B3 | C1 >A3 -B3 | C1 | C1 | B4 A1 <A3 | B1."}),
    # B (6) lacks memory beside A (5 of 8), C (2) does not
    "trtllm: v2 skips a prompt that does not fit": ("A 4 5; B 6 1 @1; C 2 1 @1", {"memory": 8}, {
        "trtllm-max-utilization": "A4 | A1 | A1", "trtllm-v2": "A4 | A1 C2 | A1",
        "trtllm-v2:max_util_for_resume=0.5": "A4 | A1 | A1"}),
    # A (4) and B (5) hold 9 of 9: neither B's nor C's chunk fits, B goes for C, but is the older, and back first
    "trtllm: without a host one that does not work goes for a prompt": (
        "A 2 3; B 7 1; C 2 3", {"memory": 9, "batch_tokens": 4}, {"trtllm-v2": "A2 B2 | A1 B3 | A1 -B5 | B4 | B3 C1"}),
    # --- planned as the batch before starts
    # B comes in batch 0, as batch 1 is planned already: it is in batch 2
    "async: what happens in a batch is seen one batch later": ("A 2 4; B 1 1 @1", {}, {
        "vllm-v1": "A2 | A1 B1 | A1 | A1.", "vllm-v1-async": "A2 | A1 | A1 B1 | A1.",
        "sglang-overlap": "A2 | A1 | B1 | A1 | A1."}),
    # B (5) waits for the 5 of A, which ends in batch 1; C decodes on
    "async: one that ends holds its memory for another batch": ("A 4 2; C 1 4; B 5 1", {"memory": 9}, {
        "vllm-v1": "* | * | C1 B5 | C1.", "vllm-v1-async": "* | * | C1 | C1 B5."}),
    # only A's end makes room for B, and no other request runs
    "async: an empty plan waits for the end of the batch": ("A 2 2 n2; B 3 1 n1", {"memory": 4}, {
        "vllm-v1-async": "A2 | A1 | B3.", "sglang-overlap": "A2 | A1 | B3."}),
    # A's last token is being made, B lacks a block and is preempted; A has ended when B is admitted again. Of B's two
    # blocks the second is not found: its token was not known yet
    "async: an empty plan preempts": ("A 1 2; B 3 3", {"memory": 6, "block": 2, "partial": True}, {
        "vllm-v1-async": "* | * | B1.", "vllm-v1-prefix-async": "* | * | B1."}),
    "async: with drop_and_work it loses its KV": (
        "A 1 2; B 3 3", {"memory": 6, "block": 2, "partial": True, "drop_and_work": True},
        {"vllm-v1-async": "* | * | B5 -B4.", "vllm-v1-prefix-async": "* | * | B3 -B4."}),
    # --- where released code differs from papers (docs/fidelity.md)
    "1: the released chunk counts decodes": (
        "A 8 4; B 1024 1 @1", {}, {"sarathi-serve": "* | A1 B511", "sarathi": "* | A1 B512"}),
    # A comes back with 900 tokens as B decodes: they take the whole batch, and B stalls
    "2: released MARS runs first come, first served, whatever the phase": (
        "A 8 1/1+900p 1; B 8 9", {"batch_tokens": 384},
        {"mars-as-released": "* | B1 | A384 | A384 | A133 B1", "mars": "* | B1 | B1 A383 | B1 A383 | B1 A135"}),
    # Rank_O: A takes 6 of 9; B (5) lacks 4 beside C, which holds 2 and comes last
    "3: the released ranking evicts for what does not fit": (
        "A 5 3; C 2 6; B 5 4 @1", {"memory": 9}, {"rank-o": "* | A1 C1", "rank-o-as-released": "* | A1 -C2"}),
    # A (60) is on the host as B (70) runs and C (10) comes: C waits for A
    "4: nothing is admitted while a swapped request waits": (
        "A 60 1/1s 1; B 70 5 @1; C 10 1 @3", {"memory": 100, "host_memory": 100},
        {"swap": "A=7 B=6 C=8", "vllm": "A=8 B=7 C=4"}),
    # blocks of 4, 8 in all: A holds one, with room for its next token, and B the other: the last comer goes
    "8: a released decode needs a free block": ("A 2 3; B 2 3", {"memory": 8, "block": 4}, {
        "sarathi": "* | A1 B1", **dict.fromkeys(("sarathi-serve", "vllm", "vllm-vidur"), "* | A1 -B2")}),
    # the phase is what the model says: beside A's decode, B's last token takes none of P
    "9: a last chunk of one token is a decode here": (
        "A 1 4; B 4 1 @1", {"prefill_tokens": 3}, {"sarathi": "* | A1 B3 | A1 B1"}),
    # --- INFERMAX
    # Table 1, C = 6: A has prefilled in batch 0; B (4 tokens) and C (3) come at tick 1
    "table 1": (TABLE_1, {"batch_tokens": 6}, {
        "vllm": "A3 | B4 | C3 | A1 B1 C1",  # whole prefills, in batches of their own
        "vllm-hy": "A3 | B4 A1 | C3 A1 B1 | C1",  # and decodes beside them
        "sarathi-c": "A3 | A1 B4 C1 | A1 B1 C2 | C1",  # C in parts of 1 and 2
        "sarathi-nocp": "A3 | A1 B4 | A1 B1 C3 | C1",  # C whole: 1 token of 6 was left
        "sarathi-nohy": "A3 | A1 | A1 | B4 | B1 | C3"}),  # A to its end, then B, then C
    # A ends with 2 + 1 + 1 + 3 - 1 = 6 tokens. B, of 2 + 2 - 1 = 3, does not fit beside them in 8 during A's call
    **{f"a reservation counts while the call preserves, M = {memory}": (
        "A 2 1/5+1p 3; B 2 2 @1", {"memory": memory}, {"sarathi-ef": done})
       for memory, done in ((8, "A=9 B=11"), (9, "A=9 B=3"))},
    # A (4 + 3) runs as B (2 + 1) comes. Rank_I: B first; A's next token finds 6 of 6 held, and A evicts itself
    "a higher rank takes what it needs": ("A 4 3; B 2 1 @1", {"memory": 6}, {
        "rank-i": "A4 | B2 -A4 | A5 | A1.", "rank-org": "A=3 B=4", "rank-o": "A=4 B=2"}),
    # Rank_I: A takes 3 of 8; B (4) lacks 4 beside C, which holds 5 and comes last: C goes
    "who comes later is evicted if that makes room": (
        "A 2 4; C 5 3; B 4 2 @1", {"memory": 8}, {"rank-i": "A2 C5 | A1 B4 -C5"}),
    # Rank_O: A takes 6 of 9; B (5) lacks 4 beside C, which holds 2: C stays, until A needs its memory
    "and only then": ("A 5 3; C 2 6; B 5 4 @1", {"memory": 9}, {"rank-o": "A5 C2 | A1 C1 | A1 -C3"}),
    # B keeps 4 of 6 in its call, from 1 to 10, and A (4) does not fit: C, which comes after it, goes on alone
    "a rank as released drops nothing in vain": (
        "B 4 1/9p 1; A 4 1 @1; C 1 2 @2", {"memory": 6}, {"rank-org-as-released": "B4 | C1 | C1"}),
    # A has 4 of 5 tokens left as B comes with 2: B goes first. A third with 3 comes when A has 4, and goes before
    "srpt on one machine": ("A 1 5; B 1 2 @1; C 1 3 @2", {"batch_requests": 1}, {"srpt": "B=3 C=6 A=10"}),
    # A (2) and B (5) decode once, to 9 of 9: then B, the longer, decodes, and A is dropped; Sarathi drops B
    "infermax evicts the shortest": (
        "A 2 4; B 5 4", {"memory": 9}, {"infermax": "* | * | B1 -A3", "sarathi-c": "* | * | A1 -B6"}),
    # R (4 + 3 - 1 = 6) is done at 3. Prompts of 4 to 7 share its bucket: S and T (5) are taken to end with 6
    "the histogram reserves the mean of its bucket": ("R 4 3; S 5 2 @3; T 5 2 @3", {"memory": 11}, {
        "infermax": "* | * | * | S5 T5 | S1 -T5", "infermax-histogram": "* | * | * | S5 | S1 | T5"}),
    "the histogram, with room": (
        "R 4 3; S 5 2 @3; T 5 2 @3", {"memory": 12}, {"infermax-histogram": "* | * | * | S5 T5"}),
    # 8 has four binary digits: nothing is known
    "the histogram of another bucket": (
        "R 4 3; S 8 2 @3; T 8 2 @3", {"memory": 17}, {"infermax-histogram": "* | * | * | S8 T8"}),
    # both hold 2, 3, 4. Together 8 > 7 at the ends; one batch apart 4 + 3, and nothing happens in between
    "mc-sf starts as soon as no end overflows": ("A 2 3; B 2 3", {"memory": 7}, {"mc-sf": "A=3 B=4"}),
    # areas: A 1 x 4 + 6 = 10, B 8 x 2 + 1 = 17. B is the shorter. In 10, A (1, 2) beside B (8, 9) is 11 at once
    "the areas order differently": (
        "A 1 4; B 8 2", {"memory": 10}, {"mc-sf": "A=5 B=2", "memory-area": "A=4 B=6"}),
    # --- Sorted-F
    # A (8, 1) alone has F = 1, B to D (1, 2) together 6 / 9: they hold 2 each at their end. A follows
    "many small ones go before a short large one": (
        "A 8 1; B 1 2; C 1 2; D 1 2", {"memory": 8, "chunked": False, "pause": False, "evict": False},
        {"sorted-f": "A=3 B=2 C=2 D=2", "mc-sf": "A=1 B=3 C=3 D=3"}),
    # sets: A and B (F = 2 / 4), D (2) before C (5); E is there when D starts, and makes the third (1)
    "the next set is chosen when the first has started": (
        "A 2 1; B 2 1; C 2 5; D 5 2; E 1 1 @1", {"memory": 6, "chunked": False, "pause": False, "evict": False},
        {"sorted-f": "A=1 B=1 D=3 E=2 C=8"}),
    # --- SLAI: ticks of a second
    # a tenth of a second counts. At 0.02 s a tick, A is due 5 ticks after its token, less 5 batches, so at once
    **{f"without a limit on TPOT, {tick} s a tick": (
        "A 8 2; B 3000 1 @1", {"tick": tick}, {"slai": f"A8 | {then}"})
       for tick, then in (("1/50", "A1 B511"), ("1/60", "B512 | A1 B511"))},
    # --- WAIT
    # A waits for B, and both sit out until C and D have come. E, of another type, is alone until the last has come
    "a type is in a batch once two new ones wait": (
        "A 2 4; B 2 4 @2; E 1 1 @3; C 2 4 @4; D 2 4 @5; F 9 1 @6", {"memory": 48, "evict": False},
        {"wait:2,6": "A2 B2 | A1 B1 C2 D2 | A1 B1 C1 D1 E1 F9 | A1 B1 C1 D1 | C1 D1."}),
    # --- refills beside what runs
    # the first holds 6 at its end, so that 2 of 8 tokens are free: the second has two tokens then, and lacks three
    "who waits processes what fits beside the first": (
        "A 4 3; B 5 3", {"memory": 8, "batch_tokens": 2},
        {"refill": "A2 | A2 | A1 B1 | A1 B1 | B2 | B1 | B1 | B1."}),
    "what is left free is what the first still grows by": (
        "A 4 3; B 5 3", {"memory": 7, "batch_tokens": 2}, {"refill": "A2 | A2 | A1 B1 | A1 | B2"}),
    # a call of more, and of less, than 1.5 times the 7 ticks in which both contexts are processed again
    **{f"KV makes room in a long call and stays in a short one, {ticks}": (
        f"A 70 1/{ticks} 1; B 18 60", {"memory": 80, "batch_tokens": 16},
        {"refill": f"* | * | * | * | A6 B10 | {then}", "refill:patience=0": "* | * | * | * | A6 B10 | 5:B8 -A70"})
       for ticks, then in ((20, "5:B8 -A70"), (5, "10:A1 -B10"))},
    "of those who make room the last goes first": (
        "A 1 9; B 2 9; C 1 2 @2", {"memory": 12, "batch_tokens": 8},
        {"refill": "* | * | A1 B1 C1 | A1 B1 C1 | A1 B1 | A1 | A1 -B6 | A1 B3 | A1 | B4 | B1 | B1 | B1."}),
    # --- the deadline rule
    # C ends 50 ticks later than its tokens say
    "calls to come count": (
        "A 1 3; B 1 9; C 1 1/50 1", {"memory": 99, "cost": TOKENS}, {"deadline:token=4": "C1 B1"}),
    # 0.7 times 4 ticks are less than a batch of one, which takes 3; at the end all are as late as each other
    "the latest to end goes first with the next that waits": (
        "A 1 1; B 1 1; C 1 4", {"memory": 99, "cost": TOKENS}, {"deadline:token=4": "A1 C1 | C1 | C1 | B1 | C1."}),
    "a far target makes batches long": (
        "A 1 1; B 1 1; C 1 3", {"memory": 99, "cost": TOKENS}, {"deadline:flow=1000,token=1": "A1 B1 C1 | C1 | C1."}),
    # four tokens for the weights; the longer of two first; beside its decode (8 + 4 ticks) go five tokens
    "up to the knee all decode and prefill goes by the latest end": (
        "A 6 1; B 4 3", {"memory": 99, "cost": ROOFLINE}, {"deadline:token=50": "B4 | B1 A5 | B1 A1."}),
    "without memory for both the earlier end waits": (
        "A 5 3; B 5 5", {"memory": 9, "cost": TOKENS}, {"deadline": "B5 | B1 | B1 | B1 | B1 | A5 | A1 | A1."}),
    # A keeps 2 of 3 during its call, from 4 to 14; B (2), which comes at 5, waits for its end
    "none of those that wait fits": (
        "A 2 1/10p 1; B 2 1 @5", {"memory": 3, "cost": TOKENS}, {"deadline": "0:A2 | 14:A1 | 17:B2."}),
    # --- first tokens before all else
    # of prompts of 1, 1 and 9: two tokens in 4 ticks are better than one in 3, or three in 13
    "the shortest prompts go first and alone": (
        "A 9 1; B 1 2; C 1 1", {"memory": 99, "cost": TOKENS}, {"first-tokens": "B1 C1 | A9 | B1."}),
    "what decodes is evicted for a first token": (
        "A 3 4; B 8 1 @6", {"memory": 8, "cost": TOKENS}, {"first-tokens": "A3 | A1 | 8:B8 -A4 | 18:A5 | A1."}),
    # it counts as a decode, but B does not evict A for it, which would go on for ever; then B does
    "the last token of a prompt comes before what waits": (
        "A 2 2; B 5 1", {"memory": 6, "block": 3, "batch_tokens": 1, "cost": TOKENS},
        {"first-tokens": "A1 | A1 | B1 -A2 | B1 | B1 | B1 | B1 | A1 | A1 | A1."}),
    # refills of 7 and 10 in parts: each has room for all that it knows before it begins
    "refills after calls do not evict each other for ever": (
        "A 4 3/3 1; B 5 2/0 1", {"memory": 12, "host_memory": 0, "prefill_tokens": 3, "cost": TOKENS},
        {"first-tokens":
         "A3 | A1 | B3 | B2 | A1 B1 | B3 -B6 | B3 | A1 -B6 | B3 -A6 | B3 | B1 | A3 | A3 | A1."}),
    # --- the knee
    # with R0 = 0 the one with least left goes alone; with a large R0 both go, as they share the weights
    "decodes that delay the others too much pause": ("A 1 2; B 1 30", {"memory": 99, "cost": DEAR}, {
        "knee:means=0": "A1 | A1 B1 | B1"}),
    "decodes share the weights": ("A 1 2; B 1 30", {"memory": 99, "cost": ROOFLINE}, {
        "knee:means=99": "A1 B1 | A1 B1"}),
    # C has 9 of 12 tokens when the decodes need the memory; all of it is computed again at the end
    "where memory lacks the prefill goes first": ("A 2 9; B 2 9; C 12 1 @1", {"memory": 20, "cost": ROOFLINE}, {
        "knee": "* | A1 B1 C4 | A1 B1 C5 | A1 B1 | A1 B1 -C9 | * | * | * | * | C4 | C4 | C4."}),
    # four tokens for the weights; beside A's decode at 4 the batch lasts 8 + 4: 12 / 2 tokens, so five of B. The last
    # token of B counts as a decode, which reads 10
    "prefill lasts as long as the weights and the KV": (
        "A 4 3; B 11 1", {"memory": 99, "cost": ROOFLINE}, {"knee": "0:A4 | 8:A1 B5 | 20:A1 B5 | 33:B1."}),
    "a prefill that ends leaves the rest to the next": (
        "A 1 1; B 2 1; C 9 1", {"memory": 99, "cost": ROOFLINE}, {"knee": "A1 B2 C1"}),
    "a hinge is a knee too": ("A 7 1", {"memory": 99, "cost": HINGED}, {"knee": "A3 | A3 | A1."}),
    "one linear function has no knee": (
        "A 7 1; B 9 1", {"memory": 99, "cost": ({"busy": 8, "tokens": 2}, {"swap_out_tokens": 3})}, {"knee": "A7 B9."}),
    # B's call keeps 8 of 12 tokens up to tick 51; A holds the other 4, and a batch that evicts it alone is none
    "a decode waits where only a call holds what it lacks": (
        "A 1 8; B 8 1/50p 1", {"memory": 12}, {"knee": "* | * | * | 3:A1 | 51:B1 -A4"}),
    # the second half of each prompt takes longer than the first of the other, and only one has room
    "prefills that are cut do not evict each other for ever": (
        "A 4 1; B 4 1", {"memory": 4, "cost": CUT}, {"knee": "A2 | A2 | B2 | B2."}),
    # --- on time
    # 3 + 4 + 5 ticks do not end by 8; without the 4 of B the others do. Each has a batch of its own
    "first tokens go by due time and the longest is set aside": (
        "A 5 1 ttft8; B 4 1 ttft7; C 3 1 ttft3", {"memory": 99, "batch_requests": 1, "cost": TICKS},
        {"on-time": "C3 | B4 | A5."}),
    "a weight keeps a long one": (
        "A 5 1 ttft8 w9; B 4 1 ttft7; C 3 1 ttft3", {"memory": 99, "batch_requests": 1, "cost": TICKS},
        {"on-time": "C3 | A5 | B4."}),
    # A is late even alone; B comes while it has not begun, and decodes alone
    "late requests work when nothing is on time": (
        "A 9 3 ttft5; B 2 3 ttft5", {"memory": 99, "batch_tokens": 4, "cost": TICKS},
        {"on-time": "B2 | B1 | B1 | A4 | A4 | A1 | A1 | A1."}),
    # A has 32 ticks for 8 tokens. The others take a tick each, so a batch may last 25 ticks, less what is rounded
    "prefill leaves the decodes their time": (
        "A 1 9 tpot4; B 30 1 @1 ttft90", {"memory": 99, "cost": TICKS},
        {"on-time": "A1 | A1 B23 | A1 | A1 | A1 | A1 | A1 | A1 | A1 B1 | B6."}),
    # A has 64 ticks for 8 tokens, a batch takes 2 at the least: 0.9 of 8 ticks, its own token and 6 of B
    "with a knee a batch lasts for most of the least pace": (
        "A 1 9 tpot8; B 30 1 @1 ttft90", {"memory": 99, "cost": ({"busy": 2}, {"tokens": 1})},
        {"on-time": "A1 | A1 B6 | A1 B6 | A1 B6 | A1 B6 | A1 B6 | A1 | A1 | A1."}),
    # A and B have their first token at 8, which is late for A, which pauses; C and B need 7 of 15, and 9 are held
    "first tokens evict late requests": (
        "A 4 6 ttft5; B 4 6 latency90; C 6 1 @9 ttft8", {"memory": 15, "host_memory": 0, "cost": TICKS},
        {"on-time": "A4 B4 | 8:B1 | 9:B1 C6 -A4 | B1 | B1 | B1 | A5 | A1 | A1 | A1 | A1."}),
    # both have 5 tokens to go by 40; B's call of 20 ticks makes it the more urgent
    "calls take from the time": (
        "A 2 6 latency40; B 2 2/20 4 latency40", {"memory": 99, "host_memory": 0, "batch_requests": 1, "cost": TICKS},
        {"on-time": "B2 | A2 | B1 | A1 -B3 | A1 | A1 | A1 | A1 | 25:B4 | B1 | B1 | 31:B1."}),
    # B waits beside A for C, until half of its 8 ticks are over, its own two included; then both go at once
    "first tokens wait for others": (
        "A 1 9 tpot9; B 2 1 @1 ttft8; C 2 1 @2 ttft9", {"memory": 99, "cost": TICKS},
        {"on-time": "A1 | A1 B2 | A1 C2 | A1 | A1 | A1 | A1 | A1 | A1.",
         "on-time:wait=0.5": "A1 | A1 | A1 | A1 B2 C2 | A1 | A1 | A1 | A1 | A1."}),
    # A is due 6 ticks after its first token at 2. At 4 it has time for the prompt of B, and ends at 7
    "the next token counts from the first": (
        "A 2 4 tpot2; B 2 4 tpot9", {"memory": 99, "batch_requests": 1, "cost": TICKS},
        {"on-time": "A2 | A1 | A1 | B2 | A1 | B1 | B1 | B1."}),
    # --- InferCept: a batch of B tokens takes 4 + B ticks. A's prompt takes 12 ticks and a part of the next, with B's:
    # its call starts at 24, at 10 tokens. Beside a decode go chunks of 7, two for A; one adds 12 - 5 = 7 ticks
    # A returns at 2; B (4 tokens of 6) runs until 3, and C waits since 1. A refills 3, and C needs 4: one fits
    "vanilla discard requeues at the end, improved discard at the old place": (
        "A 2 1/1 2; B 4 2 @1; C 4 1 @1", {"memory": 6},
        {"vllm": "A=6 B=3 C=4", "improved-discard": "A=5 B=3 C=6"}),
    # 4 of KV as the call starts at 2; it returns a token at 4, so that 2 are to process. A host of 3 is too small
    "preserve": ("A 3 2/2+1 1", {"host_memory": 9}, {"preserve": "A3 | A1 | 4:A2."}),
    "swap": ("A 3 2/2+1 1", {"host_memory": 4}, {"swap": "A3 | A1 | 2:>A4 | 4:A2 <A4."}),
    "swap without a host": ("A 3 2/2+1 1", {"host_memory": 3}, {"swap": "A3 | A1 | 4:A6 -A4."}),
    # A returns at 3 with 4 tokens to prefill, C holds 2, and 1 is free: C goes on, and A waits
    "a running request is evicted only where that gives enough memory": (
        "A 5 2/1+3p 1; B 1 3/1p 1; C 1 1/1p 2", {"memory": 12, "host_memory": 0}, dict.fromkeys(
            ("vllm", "vllm-hy", "rank-org", "rank-o", "improved-discard", "preserve", "swap", "srpt"),
            "* | * | * | C1")),
    # discard: 2 x 12 x 10 / 2 + 2 x 7 x 6 = 204 token-ticks; preserve: 10 T
    **{f"of preserve and discard the lesser waste is taken, T = {ticks}, {how}": (
        f"A 10 1/{ticks} 1; B 6 60", ALONE | more, {"infercept": f"A8 | A2 B6 | {then}"})
       for how, more in (("no host", {}), ("swaps added", {"host_memory": None, "cost": ADDED}))
       for ticks, then in ((20, "24:B1 | B1 | B1 | B1 | A1 B1"), (21, "24:B1 -A10"))},
    # a batch of B's decode takes 5 ticks and gives it a token: 10 x 5 k > 120 + 14 (6 + k) from k = 6 on, at 54
    **{f"with the elapsed time it is dropped once it has waited that long, {ticks}": (
        f"A 10 1/{ticks} 1; B 6 60", ALONE, {"infercept-elapsed": f"* | * | B1 | B1 | B1 | B1 | B1 | B1 | {then}"})
       for ticks, then in ((100, "54:B1 -A10"), (30, "54:A1 B1"))},
    # with blocks of 4, A's 10 tokens leave from the back: 2, of a block begun; a limit of 2 takes no 4
    "blocks are freed whole": (
        "A 10 1/20 1; B 6 60", ALONE | {"host_memory": None, "block": 4},
        {"infercept": "* | * | B1 >A2 | B1 | B1 | B1 | A1 B1 <A2"}),
    **{f"a machine without partial swaps whole, {hides} are hidden": (
        "A 10 1/20 1; B 6 60", ALONE | {"host_memory": None, "partial": False, "cost": cost}, {"infercept": expected})
       for hides, cost, expected in (
           (2, BESIDE, "* | * | B1 | B1 | B1 | B1 | A1 B1"),
           (10, ({"busy": 4, "tokens": 1}, {"divisor": 2, "swap_out_tokens": 1, "swap_in_tokens": 1}),
            "* | * | B1 >A10 | B1 | B1 | B1 | A1 B1 <A10"))},
    "a host without room": (
        "A 10 1/21 1; B 6 60", ALONE | {"host_memory": 3}, {"infercept": "* | * | B1 >A2 | B1 >A1 | B1 | B1 | B1"}),
    # X (4 tokens) and Y (5) call at once, beside B: one chunk for each, 12 x 4 / 2 against 12 x 5 / 2
    "the greater waste is swapped first": (
        "X 4 1/90 1; Y 5 1/90 1; B 1 60", ALONE | {"host_memory": None, "batch_tokens": 10},
        {"infercept-swap": "* | B1 -Y5 >X2", "infercept": "* | B1 -X4 >Y2"}),
    # A refills 11 (10, and the token it generated)
    "chunks fill the batch beside the decodes": (
        "A 10 1/5 1; B 6 60", ALONE, {"infercept-chunked-discard": "* | * | B1 -A10 | B1 A7 | B1 A4"}),
    # R = 1, c = 10 - 1 = 9, n = 0. Discard: l (R + l): 20 and 30, less than 4 x 90 and 5 x 90. X is dropped, Y is the
    # target: for B's ninth token Y loses its last
    "as released all are dropped but the worst, and that is swapped on demand": (
        "X 4 1/90 1; Y 5 1/90 1; B 1 12", ALONE | {"host_memory": None, "batch_tokens": 10, "memory": 13},
        {"infercept-as-released":
         "* | 14:B1 -X4 | B1 | B1 | B1 | B1 | B1 | B1 | 49:B1 >Y1 | B1 >Y1 | B1 >Y1 | 64:B1 >Y1"}),
    # discard wastes 30; preserve 5 T, less from T = 6 on down. The target: there is no host, so all of it goes
    **{f"as released what wastes less for the rest of its call is kept, {ticks}": (
        f"Y 5 1/{ticks} 1; B 1 9; C 4 9", ALONE | {"batch_tokens": 10, "memory": 14},
        {"infercept-as-released": f"* | B1 C1 | {then}"})
       for ticks, then in ((2, "20:Y1 B1"), (90, "20:B1 C1 | B1 C1 -Y5"))},
    # at 45, B's 15 x 5 is more than 5 x (8 + 5). Y returns at 60, with 3 tokens on the host. Nobody waits: all 5 are
    # dropped, and it refills 6 when B has ended
    "as released the oldest on the host is recomputed if nobody waits": (
        "Y 5 1/50 1; B 1 12", ALONE | {"host_memory": None, "batch_tokens": 10, "memory": 13},
        {"infercept-as-released":
         "* | B1 | B1 | B1 | B1 | B1 | B1 | B1 | 45:B1 >Y1 | B1 >Y1 | B1 >Y1 | 60:B1 -Y5 | 65:Y6."}),
    # --- MARS and AugServe
    # 2 x 1 x 5 = 10 against 1 tick x (5 + 2 (9 - 5)) = 13 of a discard; 20 against 13
    **{f"a free call is handled as wastes least, {ticks}": (
        f"A 4 2/{ticks} 1", {"memory": 9, "host_memory": 0}, dict.fromkeys(("mars", "mars-fcfs", "lamps"), text))
       for ticks, text in ((1, "A4 | A1 | 3:A1."), (2, "A4 | A1 | 4:A6 -A5."))},
    # A and B hold 5 each after tick 2. B has more to do, and goes although A comes after it; in order of arrival A does
    "who lacks memory evicts the largest score": ("B 3 6; A 3 4", {"memory": 10}, {
        "mars": "A3 B3 | * | * | A1 -B5 | B6 | B1 | B1.", "mars-fcfs": "A3 B3 | * | * | B1 -A5 | B1 | B1 | A6."}),
    # A calls with 5 tokens: 2 x 5 ticks to preserve, 1 x (5 + 9) to discard. B needs the tenth token in batch 2
    "who runs takes the memory of a free call that was preserved": (
        "A 5 1/2 1; B 4 4", {"memory": 10, "host_memory": 0}, {"augserve": "A5 B4 | B1 | B1 -A5 | B1 | A6."}),
    # a batch that adds 2: 2 x 2 x 6 x 2 = 48 token-ticks of a swap as printed against 6 x 9 = 54; with the 6 tokens
    # that are there 144. A discard, 3 ticks in chunks of 2 at 10 tokens or more, is 18 where nobody else runs
    "as printed a swap looks cheap": (
        "B 1 60; A 4 3/9 1 @30", {"memory": 60, "host_memory": 60, "batch_tokens": 2, "cost": SWAPPING},
        {"augserve": "A/1=preserve", "augserve-as-printed": "A/1=swap"}),
    # --- the index rule
    # A alone does all its work in 3 ticks, 1/3, and both together in 11, 2/11; but 10 of work in 11 beat 2 in 3
    "r0 weighs fast batches against full ones": ("A 2 1; B 8 1", {"cost": ({"busy": 1, "tokens": 1},)}, {
        "index:r0=0": "A2 | B8.", "index:r0=1000": "A2 B8."}),
    "the rest pauses and keeps its KV": (
        "A 9 3; B 1 1 @5", {"cost": ({"busy": 1, "tokens": 1},)}, {"index:r0=0": "A9 | B1 | A1 | A1."}),
    "the largest work left is evicted only when memory is full": (
        "A 2 3; B 2 3", {"memory": 6, "cost": ({"busy": 1, "tokens": 1},)},
        {"index:r0=1000": "A2 B2 | A1 B1 | A1 -B3 | B4."}),
    # 3 + 2 + 1 tokens; 3 + 1; 3 + 3, so that the next group waits for the end of the first
    **{f"groups start as early as memory allows, {name}, M = {memory}": (
        "A 1 3; B 1 3; C 1 3; D 1 3", {"memory": memory}, {f"staggered:{name}": done})
       for name, memory, done in (("1,1", 6, "A=3 B=4 C=5 D=6"), ("1,1", 4, "A=3 B=5 C=7 D=9"),
                                  ("2,2", 6, "A=3 B=3 C=6 D=6"), ("1,3", 6, "A=3 B=6 C=9 D=12"))},
    # --- Figure 1's rule
    "chunks share the budgets": (
        "A 1 9; B 4 2; C 7 2; D 3 2", {"batch_tokens": 8, "prefill_tokens": 5, "batch_requests": 3, "evict": False},
        {"fcfs": "A1 B4 | A1 B1 C5 | A1 C2 D3"}),
    # B and C are complete: afterwards both decode
    "without hybrid and pause prefills in parts stay alone": (
        "A 9 3; B 2 3; C 2 3",
        {"memory": 40, "batch_tokens": 4, "hybrid": False, "pause": False, "evict": False},
        {"sjf": "B2 C2 | * | * | A4 | A4 | A1"}),
    "a returned call of no time is swapped out and in at once": (
        "A 2 2/0+1s 2", {"memory": 8, "host_memory": 3, "evict": False}, {"sjf": "* | * | 2:A2 >A3 <A3"}),
    # also where everyone could still finish: A holds 3 in its call and claims 4, B's segment needs 4 of 6
    **{f"a segment that does not fit beside the others is not started, M = {memory}": (
        "A 1 3/5p 1; B 1 4", {"memory": memory, "batch_requests": 1, "evict": False}, {"fcfs": f"A=9 B={done}"})
       for memory, done in ((6, 13), (7, 7))},
}  # fmt: skip


def parts_of(batch):
    return {name: dict(getattr(batch, name)) for name in ("work", "drop", "swap_out", "swap_in")}


@pytest.mark.parametrize("what", HAND)
def test_by_hand(what):
    requests, machine, expected = HAND[what]
    given = {"evict": True, "memory": None} | machine
    cost = tuple(CostFunction(**each) for each in given.pop("cost", ({"busy": 1},)))
    tick = Fraction(given.pop("tick", 1))
    made = Instance(machine=Machine(**given), cost=Cost(cost), requests=requests_of(requests), tick_seconds=tick)
    for policy, text in expected.items():
        trace = trace_policy(own(made) if "-prefix" in policy else made, get_policy(policy))
        if "=" in text:
            found = handlings(trace) if "/" in text else completions(trace)
            assert {key: str(value) for key, value in found.items()} == dict(item.split("=") for item in text.split())
            continue
        found, parts = trace.expanded().batches, text.rstrip(".").split("|")
        assert len(found) == len(parts) if text.endswith(".") else len(found) >= len(parts), policy
        for part, batch in zip(parts, found, strict=False):
            start, _, moves = part.strip().rpartition(":")
            assert moves == "*" or parts_of(batch) == moves_of(moves), (policy, found)
            assert not start or int(start) == batch.start, (policy, found)
