"""Shared by the tests of graphs."""

import torch
from torch import nn


def capture(work, warm_up=True, **options):
    """A graph of work(), and what it returned."""
    if warm_up:
        work()
    graph = torch.ocl.Graph()
    with torch.ocl.graph(graph, **options):
        result = work()
    return graph, result


def network(device):
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
    ).to(device)


def attention(q):
    return nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=0.4)
