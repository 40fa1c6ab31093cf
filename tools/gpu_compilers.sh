#!/bin/sh
# Installs compilers for GPUs, for gpu_check.py; no GPU is needed. AMD and NVIDIA: clang-19 with
# libclc-19, ptxas; Intel: ocloc. Files that belong to no system package go into the folder.
# usage: [VENV_PYTHON=python3] [SASS=1] [PTX=1] gpu_compilers.sh FOLDER
#   SASS=1   also nvdisasm, which is in Triton's package (300 MB to fetch)
#   PTX=1    only clang-19 and libclc-19, which make PTX
set -eu

folder=$1
system="$(dirname "$0")/system_packages.sh"
if [ "${PTX:-0}" = 1 ]; then "$system" clang-19; else "$system" clang-19 intel-opencl-icd; fi
mkdir -p "$folder"
cd "$folder"
# Unpacked, not installed: the installation would remove Mesa's OpenCL, which needs an older libclc.
if [ ! -d usr/lib/clc ]; then
  apt-get download -q libclc-19
  dpkg -x libclc-19_*.deb .
  rm libclc-19_*.deb
fi
if [ "${PTX:-0}" = 1 ]; then exit 0; fi
if ! command -v ptxas >/dev/null && [ ! -d ptxas ]; then
  "${VENV_PYTHON:-python3}" -m pip install --quiet --no-deps --target ptxas nvidia-cuda-nvcc-cu12 ||
    echo "Without ptxas: NVIDIA's targets are left out." >&2
fi
# ocloc disassembles with a library whose short name only the development package has.
if [ ! -e iga/libiga64.so ]; then
  mkdir -p iga
  library=$(ldconfig -p | sed -n 's/.*=> \(.*libiga64\.so\.1\)$/\1/p' | head -n 1)
  if [ -n "$library" ]; then ln -sf "$library" iga/libiga64.so; fi
fi
if [ "${SASS:-0}" = 1 ] && ! command -v nvdisasm >/dev/null && [ ! -e nvdisasm ]; then
  "${VENV_PYTHON:-python3}" -m pip download --quiet --no-deps --only-binary :all: --dest triton triton
  unzip -qo -j triton/triton-*.whl triton/backends/nvidia/bin/nvdisasm
  chmod +x nvdisasm
  rm -r triton
fi
