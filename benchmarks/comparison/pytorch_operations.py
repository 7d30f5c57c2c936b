"""The operations of ../*_benchmark.cpp in PyTorch: same names, same sizes, float32, eager. Writes Google Benchmark's JSON.

    cd benchmarks; python3 -m comparison.pytorch_operations [--threads 2] [--min-time 0.5] [--filter REGEX] [--out FILE.json]
"""

import argparse
import json
import re
import sys
import time

import torch
import torch.nn.functional as F

CASES = {}  # name -> function that makes the inputs and gives the call to time


def measure(name):
    return lambda prepare: CASES.update({name: prepare})


def measure_operation(name, prepare):
    """`prepare` gives the parameters and an operation y = f() of them."""

    def forward():
        _, f = prepare()

        def call():
            with torch.no_grad():
                f()

        return call

    def backward():
        parameters, f = prepare()
        with torch.no_grad():
            y = f()
        dy = torch.randn_like(y)

        def call():
            for p in parameters:
                p.grad = None
            f().backward(dy)

        return call

    CASES[name + "/forward"], CASES[name + "/backward"] = forward, backward


def parameter(*shape):
    return torch.randn(*shape, requires_grad=True)


def tokens(vocabulary, *shape):
    return torch.randint(3, vocabulary, shape)


def lengths_20_to_30(count):
    return torch.tensor([20 + 7 * i % 11 for i in range(count)])


def key_mask(lengths, length):
    """True at real tokens: [batch, 1, 1, length], as scaled_dot_product_attention takes it."""
    return (torch.arange(length) < lengths[:, None])[:, None, None]


# ---- products ----

ROWS, CLASSES = 2048, 10000


def linear(width_in, width_out):
    def prepare():
        x, weight, bias = parameter(ROWS, width_in), parameter(width_out, width_in), parameter(width_out)
        return (x, weight, bias), lambda: F.linear(x, weight, bias)

    measure_operation(f"linear/{width_in}x{width_out}", prepare)


def matmul(name, *shape):
    def prepare():
        a, b = parameter(*shape), parameter(*shape)
        return (a, b), lambda: a @ b

    measure_operation(name, prepare)


def linear_cross_entropy(width):
    def prepare():
        x, weight, bias, labels = parameter(ROWS, width), parameter(CLASSES, width), parameter(CLASSES), tokens(CLASSES, ROWS)
        return (x, weight, bias), lambda: F.cross_entropy(F.linear(x, weight, bias), labels, label_smoothing=0.1)

    measure_operation(f"linear_cross_entropy/{width}", prepare)


for d in (128, 256, 512):
    linear(d, d)
linear(512, 2048)
linear(2048, 512)
matmul("matmul/512", 512, 512)
matmul("matmul/64_of_64", 64, 64, 64)
for d in (128, 512):
    linear_cross_entropy(d)

# ---- rows ----


def unary(name, width, f):
    def prepare():
        x = parameter(ROWS, width)
        return (x,), lambda: f(x)

    measure_operation(f"{name}/{width}", prepare)


unary("softmax", 512, lambda x: F.softmax(x, -1))
unary("log_softmax", 10000, lambda x: F.log_softmax(x, -1))
unary("relu", 2048, F.relu)
unary("gelu", 2048, F.gelu)
unary("dropout", 512, lambda x: F.dropout(x, 0.1))


def layer_norm():
    x, gamma, beta = parameter(ROWS, 512), parameter(512), parameter(512)
    return (x, gamma, beta), lambda: F.layer_norm(x, (512,), gamma, beta)


def embedding():
    table, ids = parameter(10000, 512), tokens(10000, ROWS)
    return (table,), lambda: F.embedding(ids, table)


measure_operation("layer_norm/512", layer_norm)
measure_operation("embedding/10000x512", embedding)


def make_adam(parameters, learning_rate=1e-5):
    return torch.optim.Adam(parameters, lr=learning_rate, fused=True)  # the fastest that there is


@measure("adam/10M")
def adam():
    weight = parameter(10_000_000)
    weight.grad = torch.randn_like(weight)
    return make_adam([weight], 1e-3).step


# ---- attention ----


def attention(name, queries, keys, causal):
    """Sentences of different lengths are padded to the longest."""
    q_length, k_length = int(queries.max()), int(keys.max())
    ragged = bool((keys != k_length).any()) and not causal  # a causal query sees no padding, which is at the end

    def prepare():
        q = parameter(len(queries), 8, q_length, 64)
        k, v = parameter(len(keys), 8, k_length, 64), parameter(len(keys), 8, k_length, 64)
        mask = key_mask(keys, k_length) if ragged else None
        return (q, k, v), lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)

    measure_operation(f"attention/{name}", prepare)


ragged, dense = lengths_20_to_30(80), torch.full((8,), 512)
attention("ragged_self", ragged, ragged, False)
attention("ragged_causal", ragged, ragged, True)
attention("ragged_cross", ragged, ragged.flip(0), False)
attention("dense_8x512", dense, dense, False)
attention("dense_causal_8x512", dense, dense, True)

# ---- timing ----


def seconds_of(call, iterations):
    """Real time and processor time."""
    begin, begin_cpu = time.perf_counter(), time.process_time()
    for _ in range(iterations):
        call()
    return time.perf_counter() - begin, time.process_time() - begin_cpu


def time_case(prepare, min_time):
    """Google Benchmark's way: one call that is not timed, then ever more of them until they take `min_time` together."""
    torch.manual_seed(1)
    call, iterations = prepare(), 1
    call()
    while True:
        elapsed, cpu = seconds_of(call, iterations)
        if elapsed >= min_time or iterations >= 10**9:
            return elapsed / iterations, cpu / iterations, iterations
        factor = 1.4 * min_time / max(elapsed, 1e-9) if elapsed / min_time > 0.1 else 10
        iterations = max(int(iterations * factor), iterations + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--min-time", type=float, default=0.5, help="seconds a case at least")
    parser.add_argument("--filter", default="", help="regular expression of the names")
    parser.add_argument("--out", help="write the JSON here instead of to standard output")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    names = [name for name in CASES if re.search(arguments.filter, name)]
    results = []
    for name in names:
        seconds, cpu, iterations = time_case(CASES[name], arguments.min_time)
        row = {"name": name, "run_type": "iteration", "iterations": iterations}
        results.append({**row, "real_time": seconds * 1e3, "cpu_time": cpu * 1e3, "time_unit": "ms"})
        print(f"{name:40} {seconds * 1e3:12.3f} ms {iterations:8}", file=sys.stderr)
    context = {"library": f"PyTorch {torch.__version__}", "num_threads": torch.get_num_threads()}
    text = json.dumps({"context": context, "benchmarks": results}, indent=1)
    if arguments.out:
        with open(arguments.out, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
