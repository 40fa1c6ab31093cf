"""Changes numbers in saved tensors, and compares what torch.load makes of them on ocl and the CPU.

usage: with_runtime.py RUNTIME python mutated_files.py [--sample N] [--seed N]

A file that the CPU refuses must be refused on ocl, when it is loaded or when its tensors are used.
One that both load must be the same, and nothing may show the numbers of freed tensors. Exits with 1
otherwise.
"""

import argparse
import collections
import io
import itertools
import pickletools
import random
import struct
import sys
import warnings

import torch

SECRET = 1234567.0
NUMBERS = [0, 1, 2, 3, 5, 17, 100, 4096, 2**20, 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**40, 2**61]
NUMBERS += [2**63 - 1, 2**63, 2**64, -1, -2, -(2**31), -(2**63)]


def things():
    """{name: what is saved}"""
    x = torch.arange(24.0).view(4, 6)
    quantized = torch.quantize_per_tensor(x, 0.5, 3, torch.quint8)
    scales, zeros = torch.full((4,), 0.5, dtype=torch.double), torch.zeros(4, dtype=torch.long)
    return {
        "tensor": x,
        "view": x[1:, ::2].t(),
        "two of a storage": {"a": x[:2], "b": x[1:]},
        "parameter": torch.nn.Parameter(x.clone()),
        "integers": torch.arange(10),
        "complex": torch.ones(3, 2, dtype=torch.complex64).conj(),
        "quantized": quantized,
        "quantized by channel": torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8),
        "sparse": torch.eye(4).to_sparse().coalesce(),
        "sparse rows": torch.eye(4).to_sparse_csr(),
        "nested": torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)]),
        "storage": x.untyped_storage(),
        "typed storage": x.storage(),
    }


def records(content):
    reader = torch._C.PyTorchFileReader(io.BytesIO(content))
    return {name: reader.get_record(name) for name in reader.get_all_records()}


def write(found):
    stream = io.BytesIO()
    writer = torch._C.PyTorchFileWriter(stream)
    for name, data in found.items():
        if name not in ("version", ".data/serialization_id"):
            writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return stream.getvalue()


def opcode(number):
    if -(2**31) <= number < 2**31:
        return b"J" + struct.pack("<i", number)
    data = number.to_bytes((number.bit_length() + 8) // 8, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def mutations(content):
    """Each integer of the pickle, replaced by each of NUMBERS: (place, number, content)."""
    found = records(content)
    program = found["data.pkl"]
    steps = list(pickletools.genops(program))
    for (op, value, at), (_, _, end) in itertools.pairwise(steps):
        if op.name not in ("BININT", "BININT1", "BININT2", "LONG1"):
            continue
        for number in NUMBERS:
            if number != value:
                changed = program[:at] + opcode(number) + program[end:]
                yield at, number, write(found | {"data.pkl": changed})


def numbers_of(thing):
    """The numbers of what was loaded, on the CPU."""
    if isinstance(thing, dict):
        return [each for value in thing.values() for each in numbers_of(value)]
    if isinstance(thing, torch.storage.TypedStorage):
        thing = thing._untyped_storage
    if isinstance(thing, torch.UntypedStorage):
        return [torch.tensor([], dtype=torch.uint8, device=thing.device).set_(thing).cpu()]
    if thing.is_nested:
        return [each.detach().cpu() for each in thing.unbind()]
    if thing.is_quantized:
        thing = thing.dequantize()
    if thing.layout != torch.strided:
        return [torch.tensor(thing.shape), thing.detach().values().cpu()]
    return [thing.detach().cpu().resolve_conj()]


def load(content, place):
    """(numbers, None), or (None, error)"""
    try:
        with torch.sparse.check_sparse_tensor_invariants():
            loaded = torch.load(io.BytesIO(content), map_location=place, weights_only=True)
        return numbers_of(loaded), None
    except Exception as error:
        return None, error


def leave_numbers():
    tensors = [torch.full((n,), SECRET, device="ocl") for n in (100, 4096, 1 << 18)]
    torch.ocl.synchronize()
    del tensors


def judge(content):
    on_cpu, refused = load(content, "cpu")
    leave_numbers()
    on_ocl, error = load(content, "ocl")
    if error is not None:
        return ("both refuse" if refused is not None else "only ocl refuses"), error
    if any(each.dtype == torch.float32 and each.eq(SECRET).any() for each in on_ocl):
        return "LEAK", ""
    if refused is not None:
        return "ONLY THE CPU REFUSES", refused
    same = len(on_cpu) == len(on_ocl) and all(
        a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
        for a, b in zip(on_cpu, on_ocl)
    )
    return ("same" if same else "DIFFERENT"), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    source = random.Random(arguments.seed)
    found = collections.Counter()
    for name, thing in things().items():
        stream = io.BytesIO()
        torch.save(thing, stream)
        cases = list(mutations(stream.getvalue()))
        if arguments.sample:
            cases = source.sample(cases, min(arguments.sample, len(cases)))
        for at, number, content in cases:
            outcome, why = judge(content)
            found[outcome] += 1
            if outcome.isupper() or outcome == "only ocl refuses":
                print(f"{outcome}: {name}, {number} at {at}: {str(why)[:200]}", flush=True)
    print(dict(found))
    sys.exit(any(outcome.isupper() for outcome in found))


if __name__ == "__main__":
    main()
