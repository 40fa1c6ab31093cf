"""A roofline plot: operations per second over operations per byte (Williams, Waterman, Patterson,
"Roofline", 2009). Cases of which only one of both is known lie on the edge of their limit."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def plot(found, path):
    limit, cases = found["limits"], found["cases"]
    ridge = limit["flops"] / limit["bytes"]
    shares = {
        name: (r["share_of_limit"], bool(r["flops"]))
        for name, r in cases.items()
        if r["share_of_limit"] is not None
    }
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(12, 0.25 * len(shares) + 2), width_ratios=(1, 2), layout="constrained"
    )
    intensity = [ridge / 64, ridge, ridge * 64]
    left.loglog(intensity, [limit["flops"] / 64 / 1e9, *[limit["flops"] / 1e9] * 2], color="black")
    for r in cases.values():
        if r["flops"] and r["bytes"]:
            left.plot(r["flops"] / r["bytes"], r["flops"] / r["ocl_ms"] / 1e6, "o")
    left.set_xlabel("FLOP per byte")
    left.set_ylabel("GFLOP/s")
    left.set_title(f"{limit['bytes'] / 1e9:.0f} GB/s, {limit['flops'] / 1e9:.0f} GFLOP/s")
    names = list(shares)[::-1]
    right.barh(
        names,
        [100 * shares[name][0] for name in names],
        color=["tab:orange" if shares[name][1] else "tab:blue" for name in names],
    )
    right.axvline(100, color="black", linewidth=0.8)
    right.set_xlabel("% of the limit (blue: memory, orange: arithmetic)")
    figure.suptitle(f"{found['device']} ({found['platform']})")
    figure.savefig(path, dpi=120)
