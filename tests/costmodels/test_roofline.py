"""Models have as many parameters as were published; rooflines are their formula, counted pair by pair."""

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from costmodels import DEVICES, MODELS, get_cost
from costmodels.devices import Device
from costmodels.engine_times import FLOORS, SHARED
from costmodels.machines import kv_capacity
from costmodels.models import WEIGHTS, Model, model_of_shape, quantized
from costmodels.roofline import Efficiency, compute_function, roofline, roofline_functions
from costmodels.rounding import longest
from costmodels.vidur import read_vidur
from kvcore import BadInput
from kvcore.cost import Features
from solvers import simulate_policy
from tests.support.commands import kvbound
from tests.support.data import real
from workloads.importers import read_trace

CASES = Path(__file__).parents[1] / "data" / "public_cases"
PUBLISHED = {
    "llama-3.2-1b": 1_235_814_400, "gpt-j-6b": 6_050_882_784, "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248, "opt-13b": 12_853_473_280, "vicuna-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192, "llama-3-70b": 70_553_706_496,
    "qwen3-8b": 8_190_735_360, "qwen3-32b": 32_762_123_264, "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560, "gpt-oss-20b": 20_914_757_184, "gpt-oss-120b": 116_829_156_672,
    "deepseek-v3": 671_026_419_200, "gemma-3-27b": 27_432_406_640 - 423_060_336, "qwen3-next-80b-a3b": 79_674_391_296,
}  # fmt: skip
"""The numbers in the published weights, without rotary frequencies (Gemma: without its part for images)."""
KIB = {"llama-2-7b": 512, "llama-3-8b": 128, "llama-2-70b": 320, "gpt-j-6b": 448, "opt-13b": 800, "llama-3.2-1b": 32}
CARDS = {
    "gpt-oss-20b": (20.91, 3.61, 12.8), "gpt-oss-120b": (116.83, 5.13, 60.8), "deepseek-v3": (671, 37, 625),
    "llama-4-scout": (109, 17, 203), "llama-4-maverick": (400, 17, 746), "qwen3-30b-a3b": (30.5, 3.3, 56.9),
    "qwen3-235b-a22b": (235, 22, 438),
}  # fmt: skip
"""Of model cards: billions of parameters, those active for a token, GiB of weights (16 bits where a card says none)."""
SCOUT = "layers=48,hidden_size=5120,heads=40,kv_heads=8,head_dim=128,intermediate_size=8192,vocab_size=202048"
MEASURED_H200 = replace(DEVICES["h200"], bandwidth=4300 * 10**9, flops=790 * 10**12)


def batch(decodes, prefills):
    """Return the features of decodes at these contexts m, and prefills (c, m); each generates a token."""
    return Features(
        busy=1, any_decode=int(bool(decodes)), any_prefill=int(bool(prefills)),
        tokens=len(decodes) + sum(c for c, _ in prefills), generated=len(decodes) + len(prefills),
        decode_requests=len(decodes), prefill_requests=len(prefills), decode_kv=sum(decodes),
        prefill_kv=sum(m for _, m in prefills), prefill_pairs=sum(c * c + 2 * c * m for c, m in prefills),
    )  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_published(name):
    assert MODELS[name].parameters == PUBLISHED[name]


def test_every_model_is_compared():
    assert set(MODELS) - set(PUBLISHED) - set(CARDS) == {"tiny", "small"}
    assert {name: MODELS[name].kv_bytes() // 1024 for name in KIB} == KIB


def test_a_tied_embedding_is_read_and_an_untied_one_is_not():
    tied, untied = MODELS["llama-3.2-1b"], MODELS["llama-3-8b"]
    assert tied.read_parameters == tied.parameters
    assert untied.read_parameters == untied.parameters - 128_256 * 4096


def test_matrices_of_layers_are_counted_one_by_one():
    """Tiny: queries and outputs 64 x 64, keys and values 64 x 32, three of 64 x 128, in two layers."""
    assert MODELS["tiny"].layer_matrices == 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128)


@pytest.mark.parametrize("name", ["tiny", "llama-3.2-1b", "opt-13b"])
@pytest.mark.parametrize("seed", range(5))
def test_a_roofline_is_its_formula_counted_pair_by_pair(name, seed):
    draw = random.Random(seed)
    model, device, t = MODELS[name], DEVICES["h100"], draw.choice([1, 2])
    decodes = [draw.randint(1, 90) for _ in range(draw.randint(0, 5))]
    prefills = [(draw.randint(2, 40), draw.randint(0, 60)) for _ in range(draw.randint(0 if decodes else 1, 3))]
    made = batch(decodes, prefills)
    pairs = sum(
        sum(key <= query for key in range(m + c)) for c, m in [(1, m) for m in decodes] + prefills
        for query in range(m, m + c)
    )  # fmt: skip
    resident = sum(decodes) + sum(m for _, m in prefills)
    traffic = 2 * model.read_parameters + model.kv_bytes() * (resident + made.tokens)
    work = (
        2 * model.layer_matrices * made.tokens + 2 * model.head_matrix * made.generated
        + 4 * model.heads * model.head_width * model.layers * pairs
    )  # fmt: skip
    functions = roofline_functions(model, device, t)
    expected = [Fraction(traffic, t * device.bandwidth), Fraction(work, t * device.flops), 0, 0]
    assert [function.value(made) for function in functions] == expected
    assert longest(functions, made) == max(expected)


@pytest.mark.parametrize(("made", "milliseconds"), [
    (batch([0], []), 0.575), (batch([2048] * 8, []), 0.700), (batch([2048] * 64, []), 1.574),
    (batch([2048] * 128, []), 2.573), (batch([2048] * 256, []), 4.572), (batch([512] * 64, []), 0.825),
    (batch([8192] * 64, []), 4.571), (batch([], [(512, 0)]), 1.284), (batch([], [(2048, 0)]), 5.394),
    (batch([], [(2048, 6144)]), 7.482),
])  # fmt: skip
def test_floors_of_the_1b_at_measured_bandwidth(made, milliseconds):
    """Worked out by hand from 4.3 TB/s and 790 TFLOP/s."""
    functions = roofline_functions(MODELS["llama-3.2-1b"], MEASURED_H200)
    assert float(longest(functions, made)) * 1000 == pytest.approx(milliseconds, abs=0.0015)


def test_the_ridge_of_the_1b():
    """Without KV, 183 tokens and their logits hide behind the reading of the weights, and 184 do not."""
    memory, compute = roofline_functions(MODELS["llama-3.2-1b"], MEASURED_H200)[:2]
    weights = value_of(memory, tokens=0)
    first = next(n for n in range(1, 4096) if value_of(compute, tokens=n, generated=n) > weights)
    assert first == 184


def value_of(function, **features):
    return function.value(Features(busy=1, **features))


@pytest.mark.parametrize("seed", range(10))
def test_the_integer_cost_is_within_its_error(seed):
    draw = random.Random(seed)
    model = draw.choice(list(MODELS.values()))
    efficiency = Efficiency(Fraction(draw.randint(1, 997), 997), Fraction(4, 5), Fraction(2, 3))
    device = replace(DEVICES["h200"], memory=10**12)
    how = draw.choice(["overlapped", "sync"])
    functions = roofline_functions(model, device, transfers=how, efficiency=efficiency)
    made = roofline(model, device, transfers=how, efficiency=efficiency)
    cost = made.make()
    for _ in range(20):
        one = Features(1, 1, 1, *(draw.randint(0, 10**6) for _ in Features._fields[3:]))
        exact = longest(functions, one) / made.tick
        assert (1 - made.rounding) * exact <= cost.duration(one) < (1 + made.rounding) * exact + 1


def test_transfers_are_beside_the_work_or_in_both_functions():
    model, device = MODELS["llama-3-8b"], DEVICES["h100"]
    work = batch([1000] * 10, [])
    moves = {"swap_out_tokens": 3000, "swap_in_tokens": 2000, "swap_outs": 2, "swap_ins": 1}
    alone = longest(roofline_functions(model, device), work)
    token = Fraction(model.kv_bytes(), device.link)
    beside = longest(roofline_functions(model, device), work._replace(**moves))
    added = longest(roofline_functions(model, device, transfers="sync"), work._replace(**moves))
    assert beside == max(alone, 3000 * token) > alone
    assert added == alone + 5000 * token
    assert longest(roofline_functions(model, device, 2), Features(**moves)) == 3000 * token / 2


def test_a_part_of_the_peaks_takes_so_much_longer():
    model, device, made = MODELS["llama-3-8b"], DEVICES["h100"], batch([100], [(4000, 0)])
    compute = compute_function(model, Fraction(device.flops)).value(made)
    reached = roofline_functions(model, device, efficiency=Efficiency(compute=Fraction(3, 4)))
    assert longest(reached, made) == compute / Fraction(3, 4)


def test_memory_is_what_the_weights_leave():
    """0.9 x 80 GiB less 16.06 GB, at 128 KiB a token, in blocks of 16."""
    machine = get_cost("roofline:model=llama-3-8b,device=h100").machine
    free = 72 * 2**30 - 2 * 8_030_261_248
    assert machine.memory == free // (16 * 131_072) * 16 == 467_280
    assert (machine.block, machine.host_memory, machine.batch_tokens, machine.evict) == (16, 0, 4096, True)


def test_two_devices_hold_what_one_does_not():
    """0.9 x 160 GiB less 141.1 GB is 13.51 GB: 2,577 blocks of 16 x 320 KiB."""
    assert kv_capacity(MODELS["llama-3-70b"], DEVICES["h100"].memory, 16, devices=2) == 41_232
    with pytest.raises(BadInput, match=r"llama-3-70b does not fit: its weights take 141.1 GB .* 77.3 GB for both"):
        kv_capacity(MODELS["llama-3-70b"], DEVICES["h100"].memory, 16)


def test_all_parameters_of_a_name_are_read():
    model = get_cost(
        "roofline:model=llama-3-8b,device=h100,tp=2,block=32,host=64,batch=512,transfers=sync,"
        "bandwidth=0.8,compute=3/4,link=.5,memory=0.85,tick=1e-6"
    )
    twin = roofline(
        MODELS["llama-3-8b"], DEVICES["h100"], 2, block=32, host_memory=64 * 2**30, batch_tokens=512, transfers="sync",
        efficiency=Efficiency(Fraction(4, 5), Fraction(3, 4), Fraction(1, 2)), share=Fraction(85, 100),
        tick=Fraction(1, 10**6),
    )  # fmt: skip
    assert (model.make(), model.machine, model.tick) == (twin.make(), twin.machine, twin.tick)
    assert model.machine.host_memory == 64 * 2**30 // 131_072
    assert twin.machine != get_cost("roofline:model=llama-3-8b,device=h100").machine


@pytest.mark.parametrize(("name", "message"), [
    ("roofline", r"roofline: name the model \(model=..\), one of tiny"),
    ("roofline:model=tiny", r"name the device \(device=..\), one of a100-40gb"),
    ("roofline:model=claude,device=h100", "no model is called 'claude'; there are tiny, small, llama-3.2-1b"),
    ("roofline:model=qwen3-8,device=h100", "no model is called 'qwen3-8'; is it qwen3-8b, .*there are tiny"),
    ("roofline:model=tiny,device=b2000", "no device is called 'b2000'; is it b200.*there are a100-40gb"),
    ("roofline:layer=2,device=h100", "'layer=2' is no parameter; is it layers.*; write roofline:model="),
    ("roofline:layers=2,device=h100", "a shape needs hidden_size, heads, vocab_size, intermediate_size, too"),
    ("roofline:layers=2,model=tiny,device=h100", "model=tiny has a shape; leave it out, or layers"),
    ("roofline:layers=2.5,device=h100", "layers=2.5 is no whole number from 1 on"),
    (f"roofline:{SCOUT},num_hidden_layers=4,device=b200", "num_hidden_layers says again what layers says"),
    (f"roofline:{SCOUT},num_experts=16,device=b200", "a shape needs num_experts_per_tok, too"),
    (f"roofline:{SCOUT},num_experts=2,num_experts_per_tok=3,device=b200", "a token goes through more experts"),
    (f"roofline:{SCOUT.replace('kv_heads=8', 'kv_heads=7')},device=b200", "40 heads are no multiple of 7"),
    (f"roofline:{SCOUT},kv_lora_rank=512,device=b200", "a shape needs q_lora_rank, qk_rope_head_dim, .* too"),
    ("roofline:model=tiny,device=h100,experts_read=2", "experts_read=2: a batch of tiny reads no experts a layer"),
    ("roofline:model=gpt-oss-20b,device=h100,experts_read=3", "a batch of gpt-oss-20b reads 4 to 32 of them"),
    ("roofline:model=tiny,device=h100,tp=3", "tp=3: it has to divide the 2 heads of KV of tiny"),
    ("roofline:model=tiny,device=h100,block=0", "block=0 is no whole number from 1 on"),
    ("roofline:model=tiny,device=h100,bandwidth=1.5", "bandwidth=3/2: the fraction of a peak is above 0"),
    ("roofline:model=tiny,device=h100,compute=0", "compute 0: write a number above 0"),
    ("roofline:model=tiny,device=h100,memory=2", "memory is the share for weights and KV, at most 1"),
    ("roofline:model=tiny,device=h100,transfers=none", "transfers is overlapped or sync, not 'none'"),
    ("roofline:model=tiny,device=h100,wieghts=fp8",
     "is it weights.*; write .* launch, .* weights, kv, floor, windows, layers"),
    ("roofline:model=tiny,device=h100,launch=vllm", "no time between batches .* 'vllm'; is it vllm-0.*seconds, such"),
    ("roofline:model=tiny,device=h100,floor=vidur", "profiles of llama-2-7b on a100-80gb, .* on 1, 2, 4, 8 devices"),
])  # fmt: skip
def test_what_is_wrong_with_a_name_is_one_line(name, message):
    with pytest.raises(BadInput, match=message) as caught:
        get_cost(name)
    assert "\n" not in str(caught.value)


def test_the_time_between_batches_is_added_to_all_work():
    plain, late = (get_cost(f"roofline:model=llama-3-8b,device=h100{more}").make() for more in ("", ",launch=0.005"))
    for made in (batch([100] * 3, []), batch([], [(4096, 0)])):
        assert late.duration(made) - plain.duration(made) == pytest.approx(5_000_000, abs=1)
    assert late.duration(Features(swap_out_tokens=9)) == plain.duration(Features(swap_out_tokens=9))
    named = get_cost("roofline:model=llama-3-8b,device=h100,launch=vllm-0.5")
    assert named.make() == get_cost("roofline:model=llama-3-8b,device=h100,launch=0.009").make()
    assert (named.note, "cannot rank chunk sizes" in get_cost("roofline:model=tiny,device=h100").note) == ("", True)


def test_chunks_of_long_prompts_rank_as_users_measure_them():
    """vLLM 0.5 on 8 H100, 50 prompts of 40,000 tokens (issue 7604): the larger the chunk, the better; here by 1 %."""

    def makespan(chunk, launch):
        model = get_cost(f"roofline:model=llama-3-70b,device=h100,tp=8{launch}")
        machine = model.machine.replace(batch_tokens=chunk)
        instance = read_trace(
            CASES / "offline_40k.csv", "prompt=prompt,decode=output", machine=machine, tick=model.tick,
            cost=model.make(),
        )  # fmt: skip
        return simulate_policy(instance, "vllm-v1", "makespan").value

    assert makespan(2048, "") < makespan(65_536, "")
    assert makespan(2048, ",launch=vllm-0.5") > makespan(65_536, ",launch=vllm-0.5")


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("tiny", "small")])
def test_every_model_takes_fewer_bits(name):
    """What is saved is that of the matrices of the layers; KV of 1 byte is half of it."""
    model = MODELS[name]
    matrices = model.dense_matrices + model.expert_matrices(model.experts and model.experts.count)
    sizes = {}
    for weights, bits in WEIGHTS.items():
        less = quantized(model, weights, "fp8", True)
        sizes[weights] = less.weight_bytes
        assert less.weight_bytes == 2 * model.parameters - int((16 - bits) * matrices / 8)
        assert less.kv_bytes() * 2 == model.kv_bytes()
    assert sizes["int4"] < sizes["fp8"] < sizes["bf16"]
    made = get_cost(f"roofline:model={name},device=h200,tp={min(4, model.kv_heads)},weights=int4,kv=fp8")
    assert made.machine.memory > 0


def test_only_devices_with_fp8_compute_faster_with_it():
    prefill = batch([], [(4096, 0)])
    for device, faster in (("h100", True), ("a100-80gb", False)):
        plain, fp8 = (get_cost(f"roofline:model=llama-3-8b,device={device}{w}").make() for w in ("", ",weights=fp8"))
        assert (fp8.duration(prefill) < 0.6 * plain.duration(prefill)) == faster


def test_layers_take_at_least_what_vidur_measured():
    model = get_cost("roofline:model=llama-2-7b,device=a100-80gb,tp=2,floor=vidur,launch=0.001").make()
    assert model.duration(batch([1], [])) == 32 * 155_000 + 1_000_000


@pytest.mark.data
def test_the_floors_are_those_of_the_profiles():
    files = {"a100-80gb": "a100", "h100": "h100", "llama-2-7b": "Llama-2-7b-hf", "llama-3-8b": "Meta-Llama-3-8B"}
    for (device, name), microseconds in FLOORS.items():
        file = real(f"vidur_profiling/{files[device]}_{files[name]}_mlp.csv")
        least = [min(seconds for _, seconds in read_vidur(file, tp).layer) for tp in SHARED]
        assert microseconds == tuple(round(seconds * 10**6) for seconds in least)


def test_the_command_line_takes_a_roofline(tmp_path):
    file = tmp_path / "I.json"
    cost = "roofline:model=llama-3-8b,device=h100"
    kvbound("generate", "fixed", "--n", 3, "--prompt", 64, "--output", 8, "--cost", cost, "--out", file)
    done = kvbound("simulate", file, "--policy", "vllm", "--json", "-")
    assert '"status": "feasible"' in done.stdout
    failed = kvbound("generate", "fixed", "--n", 3, "--cost", f"{cost},x=1", "--out", file, code=2)
    assert "'x=1' is no parameter" in failed.stderr
    failed = kvbound("generate", "fixed", "--n", 3, "--cost", cost, "--tick", "1", "--out", file, code=2)
    assert "leave --tick out" in failed.stderr


def test_tables_have_no_holes():
    for entry in [*DEVICES.values(), *MODELS.values()]:
        assert isinstance(entry, Device | Model)
        assert entry.source
    assert set(DEVICES) == {"a100-40gb", "a100-80gb", "h100", "h200", "b200", "mi300x", "rtx-4090"}


@pytest.mark.parametrize("name", CARDS)
def test_experts_are_those_of_the_model_card(name):
    """The parts that a card counts differ a little: embeddings, the pictures of Llama 4."""
    model, (billions, active, gib) = MODELS[name], CARDS[name]
    assert model.parameters / 1e9 == pytest.approx(billions, rel=0.012)
    assert model.read_parameters / 1e9 == pytest.approx(active, rel=0.08)
    assert model.weight_bytes / 2**30 == pytest.approx(gib, rel=0.012)


def test_latent_kv_and_windows():
    """DeepSeek-V3: 512 + 64 numbers in 61 layers; gpt-oss-20b: 12 of 24 layers, 8 heads of width 64."""
    latent, windows = MODELS["deepseek-v3"], MODELS["gpt-oss-20b"]
    assert latent.kv_bytes() == 2 * 61 * (512 + 64)
    assert latent.pair_operations == 2 * 128 * (128 + 64 + 128) * 61
    assert windows.kv_bytes() == 2 * 2 * 12 * 8 * 64
    assert windows.pair_operations == 4 * 64 * 64 * 12


def test_a_machine_has_the_windows_and_states_of_its_model():
    """By hand: 62 layers at 8 KiB a token, two make a unit; 12 at 2 KiB, beside 36 x 548,864 x 2 bytes of states."""
    gemma, qwen = "roofline:model=gemma-3-27b,device=h100", "roofline:model=qwen3-next-80b-a3b,device=h200,tp=2"
    names = (gemma, f"{gemma},windows=keep", qwen, f"{qwen},windows=keep")
    sliding, kept, states, same = (get_cost(name).machine for name in names)
    room = int(Fraction(9, 10) * 80 * 2**30) - MODELS["gemma-3-27b"].weight_bytes
    assert (sliding.memory, kept.memory) == (room // 2**18 * 16, room // (31 * 2**18) * 16)
    assert (sliding.partial, kept.partial, kept.layout) == (False, True, None)
    assert [sliding.blocks(m) for m in (16, 1024, 16_384)] == [31, 31 * 64, 5 * 1024 + 26 * 64]
    assert states == same
    assert [states.blocks(m) for m in (0, 1, 32)] == [0, 1 - -36 * 548_864 * 2 // (24 * 2**14), 103]


def test_a_roofline_counts_full_windows_and_states():
    made = batch([200, 3000], [(50, 128)])
    for name, read, written in (
        ("gpt-oss-20b", 12 * 2048 * 128, 12 * 2048), ("qwen3-next-80b-a3b", 2 * 36 * 548_864 * 2, 0),
    ):  # fmt: skip
        model = MODELS[name]
        traffic = model.read_bytes() + model.kv_bytes() * (3328 + 52) + 3 * read + 52 * written
        memory, compute, out, _ = roofline_functions(model, DEVICES["h100"])
        assert memory.value(made) == Fraction(traffic, DEVICES["h100"].bandwidth)
        assert compute.seconds["tokens"] * DEVICES["h100"].flops == (
            2 * model.layer_matrices + model.pair_operations // 2 + 4 * 64 * 64 * 128 * model.windowed
        )
        assert out.seconds["swap_outs"] * DEVICES["h100"].link == read // (1 + (not model.windowed))


def test_more_experts_take_longer_to_read():
    """Each more of gpt-oss-20b's experts, in 24 layers: three matrices of 2880 x 2880 at 4.25 bits, 8640 biases."""
    model = MODELS["gpt-oss-20b"]
    one = 24 * (3 * 2880 * 2880 * Fraction(17, 32) + 2 * 8640)
    assert model.read_bytes(4) == model.read_bytes()
    assert model.read_bytes(32) - model.read_bytes(4) == 28 * one
    assert model.weight_bytes - model.read_bytes(32) == 2 * model.head_matrix  # the embedding
    read = get_cost("roofline:model=gpt-oss-20b,device=h100,experts_read=32").make().functions[0]
    assert Fraction(dict(read.terms)[0], read.divisor) == pytest.approx(model.read_bytes(32) / 3350, rel=1e-6)


def test_a_shape_is_the_model_that_it_describes():
    """Llama-3-8B in the names of config.json, and Llama 4 Scout with its experts."""
    by_name = get_cost("roofline:model=llama-3-8b,device=h100,tp=2")
    by_shape = get_cost(
        "roofline:num_hidden_layers=32,hidden_size=4096,num_attention_heads=32,num_key_value_heads=8,"
        "intermediate_size=14336,vocab_size=128256,device=h100,tp=2"
    )
    assert (by_shape.make(), by_shape.machine) == (by_name.make(), by_name.machine)
    assert by_shape.what == "roofline of a model of 32 layers on 2 x h100"
    scout = get_cost(f"roofline:{SCOUT},num_local_experts=16,num_experts_per_tok=1,n_shared_experts=1,device=b200,tp=2")
    assert scout.make() == get_cost("roofline:model=llama-4-scout,device=b200,tp=2").make()
    shape = model_of_shape("", {
        "layers": 61, "hidden_size": 7168, "heads": 128, "vocab_size": 129_280, "intermediate_size": 18_432,
        "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 2048,
        "first_k_dense_replace": 3, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128, "v_head_dim": 128,
    })  # fmt: skip
    twin = MODELS["deepseek-v3"]
    assert (shape.layer_matrices, shape.kv_bytes()) == (twin.layer_matrices, twin.kv_bytes())


def test_the_engine_declines_what_its_decoder_lacks():
    with pytest.raises(BadInput, match=r"deepseek-v3 has experts and latent KV and norms .* decoder has none"):
        MODELS["deepseek-v3"].check_plain()
    with pytest.raises(BadInput, match="gpt-j-6b has no gate in its feed-forward part"):
        MODELS["gpt-j-6b"].check_plain()
    MODELS["llama-3-8b"].check_plain()
