#!/bin/sh
# Installs the Debian or Ubuntu packages that torch-ocl is built and tested with, where missing.
# usage: [PYTHON=python3] system_packages.sh [more packages]
set -eu

packages="g++ cmake ninja-build ccache opencl-clhpp-headers pocl-opencl-icd libgtest-dev $*"
# A driver's own loader is as good as Debian's.
PATH="$PATH:/sbin:/usr/sbin" ldconfig -p | grep -q libOpenCL.so.1 ||
  packages="$packages ocl-icd-libopencl1"

# The system's own Python comes in parts; others are complete.
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
  packages="$packages python3 python3-venv python3-dev"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "torch-ocl needs Python 3.11 or newer; choose one with \`make PYTHON=python3.12 ...\`." >&2
  exit 1
elif [ "$("$python" -c 'import sys; print(sys.base_prefix)')" = /usr ]; then
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  packages="$packages python$version-venv python$version-dev"
fi

if ! command -v dpkg-query >/dev/null; then
  echo "This is not Debian or Ubuntu: please see to it that the equivalents of these packages are" \
    "installed: $packages" >&2
  exit 0
fi

missing=
for package in $packages; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
  sudo=
elif command -v sudo >/dev/null; then
  sudo=sudo
else
  echo "Packages are missing, and neither root nor sudo is here. Please have installed:" >&2
  echo "  apt-get install$missing" >&2
  exit 1
fi
echo "Installing system packages:$missing"
# A mirror that cannot be reached just now need not matter: the lists may be there already.
$sudo apt-get update -q || true
if ! $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
then
  echo "Could not install the packages. Please install them:" >&2
  echo "  apt-get install$missing" >&2
  exit 1
fi
