"""torch.backends.cuda and cudnn: switches only keep their values; functions get answers."""

from torch.backends import cuda

from .refusals import refuse
from .words import asked_by_program


def _is_built() -> bool:
    """True for programs: PyTorch has kernels for their "cuda", which is ocl."""
    return asked_by_program()


class _PlanCache:
    """The cache of cuFFT's plans: always empty, because ocl has no cuFFT."""

    def __init__(self):
        self.size, self.max_size = 0, 0

    def __getitem__(self, device):
        return self

    def clear(self) -> None:
        """Does nothing."""


REFUSED = {
    "cublas_workspace_size": "which has no workspaces of cuBLAS: leave it out",
    "cublaslt_workspace_size": "which has no workspaces of cuBLASLt: leave it out",
    "blas_workspace_size": "which has no workspaces of cuBLAS: leave it out",
}


def install() -> None:
    cuda.is_built = _is_built
    cuda.cufft_plan_cache = _PlanCache()
    for name, reason in REFUSED.items():
        if hasattr(cuda, name):
            setattr(cuda, name, refuse(f"torch.backends.cuda.{name}", reason))
