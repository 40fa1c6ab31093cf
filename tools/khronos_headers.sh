#!/bin/sh
# Installs the headers of OpenCL and of its C++ interface in the images for manylinux wheels, whose
# system has no packages of them.
set -eu
version=2024.10.24
for project in OpenCL-Headers OpenCL-CLHPP; do
  address=https://github.com/KhronosGroup/$project/archive/refs/tags/v$version.tar.gz
  curl -sSfL "$address" | tar xz -C /tmp
done
cp -r "/tmp/OpenCL-Headers-$version/CL" /usr/include/
cp -r "/tmp/OpenCL-CLHPP-$version/include/CL" /usr/include/
