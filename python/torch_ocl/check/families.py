"""The families of kernels that `python -m torch_ocl.check` compares with the CPU."""

from . import data, layouts, networks, numeric, vision

FAMILIES = {
    "element-wise": numeric.ELEMENT_WISE,
    "lists of tensors": numeric.LISTS,
    "optimizers": numeric.OPTIMIZERS,
    "mixed precision": numeric.MIXED_PRECISION,
    "reductions": numeric.REDUCTIONS,
    "softmax": numeric.SOFTMAX,
    "normalisation": numeric.NORMALISATION,
    "losses": numeric.LOSSES,
    "random numbers": numeric.RANDOM,
    "matrix products": networks.MATRIX_PRODUCTS,
    "packed weights": networks.PACKED_WEIGHTS,
    "convolutions": networks.CONVOLUTIONS,
    "attention": networks.ATTENTION,
    "recurrent networks": networks.RECURRENT,
    "linear algebra": networks.LINEAR_ALGEBRA,
    "distances": networks.DISTANCES,
    "Fourier transforms": networks.FOURIER,
    "tensors": data.TENSORS,
    "indexing": data.INDEXING,
    "sorting": data.SORTING,
    "pooling": data.POOLING,
    "resampling": data.RESAMPLING,
    "images": data.IMAGES,
    "boxes": vision.VISION,
    "sparse tensors": layouts.SPARSE,
    "quantized tensors": layouts.QUANTIZED,
    "nested tensors": layouts.NESTED,
    "kernels of programs": layouts.KERNELS_OF_USERS,
    "compiled functions": layouts.COMPILED,
}
# Settings to try when any family fails.
GENERAL = ["OCL_BUILD_OPTIONS=-cl-opt-disable", "OCL_LAUNCH_BLOCKING=1", "OCL_CACHE_DIR=off"]
