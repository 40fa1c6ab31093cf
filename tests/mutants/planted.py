"""Faults to plant in the sources, one at a time: each must make a test fail."""

import planted_host
import planted_layers
import planted_math

FAULTS = [
    *planted_math.REDUCTIONS,
    *planted_layers.NORMALISATIONS,
    *planted_math.INDICES,
    *planted_layers.LAYERS,
    *planted_layers.OPTIMIZERS,
    *planted_layers.PRODUCTS_OF_MATRICES,
    *planted_math.LINEAR_ALGEBRA,
    *planted_math.TENSORS,
    *planted_host.PYTHON,
    *planted_host.HOST,
]
