"""Tensors of more than 2^31 elements, of one byte each: where an index of 32 bits ends."""

import pathlib

import torch

SIZE = 2**31 + 7
MARKS = (0, 1, 2**31 - 1, 2**31, SIZE - 1)
NEEDED_GIB = 12
CHUNK = 2**27


def marked(device, dtype=torch.int8):
    x = torch.zeros(SIZE, dtype=dtype, device=device)
    for value, position in enumerate(MARKS, 1):
        x[position] = value
    return x


def places(device):
    return torch.tensor(MARKS, device=device)


def written(change):
    """Makes a case that changes a tensor in place and returns it."""

    def run(device):
        x = marked(device)
        change(x, device)
        return x

    return run


def square(x):
    return x[: 2**31].view(2, 2**15, 2**15)


CASES = {
    "full": lambda d: torch.full((SIZE,), 3, dtype=torch.int8, device=d),
    "fill_": written(lambda x, d: x[2:].fill_(7)),
    "clone": lambda d: marked(d).clone(),
    "to bool": lambda d: marked(d).to(torch.bool),
    "copy_ with an offset": written(lambda x, d: x[5:].copy_(x[:-5].clone())),
    "expanded copy": lambda d: torch.ones(1, dtype=torch.int8, device=d).expand(SIZE).clone(),
    "transposed copy": lambda d: square(marked(d)).transpose(1, 2).contiguous(),
    "every second": lambda d: marked(d)[1::2].clone(),
    "slice": lambda d: marked(d)[2**31 - 2 :].clone(),
    "flip": lambda d: marked(d).flip(0),
    "cat": lambda d: torch.cat([marked(d)[: 2**30], marked(d)[2**30 :]]),
    "index": lambda d: marked(d)[places(d)],
    "index_select": lambda d: marked(d).index_select(0, places(d)),
    "gather": lambda d: marked(d).gather(0, places(d)),
    "take": lambda d: marked(d).take(places(d)),
    "index_put_": written(lambda x, d: x.index_put_((places(d),), x[places(d)] + 1)),
    "index_fill_": written(lambda x, d: x.index_fill_(0, places(d), 9)),
    "scatter_": written(lambda x, d: x.scatter_(0, places(d), 9)),
    "add": lambda d: marked(d) + 1,
    "neg": lambda d: marked(d).neg_(),
    "eq": lambda d: marked(d) == 5,
    "where": lambda d: torch.where(marked(d, torch.bool), marked(d), marked(d)),
    "sum": lambda d: marked(d).sum(),
    "sum of rows": lambda d: square(marked(d)).sum(2, dtype=torch.int32),
    "max": lambda d: marked(d).max(),
    "argmax": lambda d: marked(d).argmax(),
    "any": lambda d: marked(d, torch.bool)[2:].any(),
    "nonzero": lambda d: marked(d).nonzero(),
    "count_nonzero": lambda d: marked(d).count_nonzero(),
    "masked_select": lambda d: torch.masked_select(marked(d), marked(d, torch.bool)),
    "cumsum": lambda d: marked(d).cumsum(0, dtype=torch.int8),
}


def memory_lacks():
    """Whether the system reports that less than NEEDED_GIB are available."""
    table = pathlib.Path("/proc/meminfo")
    lines = table.read_text().splitlines() if table.exists() else []
    sizes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return bool(sizes) and sizes[0] < NEEDED_GIB * 2**20


def difference(actual, expected):
    """Describes the difference, or None. Compares in pieces, because there is no room for a
    copy."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}, {actual.shape} instead of {expected.dtype}, {expected.shape}"
    if actual.stride() != expected.stride():
        return f"strides {actual.stride()} instead of {expected.stride()}"
    actual, expected = actual.reshape(-1), expected.reshape(-1)
    for start in range(0, expected.numel(), CHUNK):
        mine, theirs = actual[start : start + CHUNK].cpu(), expected[start : start + CHUNK]
        if not torch.equal(mine, theirs):
            at = int((mine != theirs).nonzero()[0])
            return f"element {start + at} is {mine[at].item()} instead of {theirs[at].item()}"
    return None
