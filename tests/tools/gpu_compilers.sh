#!/bin/sh
# Gets the compilers of GPUs that need not be here, for gpu_check.py: AMD and NVIDIA (clang-19 with
# libclc-19; ptxas), Intel (ocloc). What is no system package goes into the folder.
# usage: [VENV_PYTHON=python3] gpu_compilers.sh FOLDER
set -eu

folder=$1
"$(dirname "$0")/system_packages.sh" clang-19 intel-opencl-icd
mkdir -p "$folder"
cd "$folder"
# Unpacked, not installed: it would take Mesa's OpenCL, which needs an older one, off the system.
if [ ! -d usr/lib/clc ]; then
  apt-get download -q libclc-19
  dpkg -x libclc-19_*.deb .
  rm libclc-19_*.deb
fi
if ! command -v ptxas >/dev/null && [ ! -d ptxas ]; then
  "${VENV_PYTHON:-python3}" -m pip install --quiet --no-deps --target ptxas nvidia-cuda-nvcc-cu12 ||
    echo "Without ptxas: NVIDIA's targets are left out." >&2
fi
