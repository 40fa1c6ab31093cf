// Prints the number of OpenCL devices that this machine offers to torch-ocl. A process of its own,
// because listing devices starts driver threads that a later fork of the caller would lose.
#include <cstdio>

#include "backend/device.h"
#include "backend/system.h"

int main() {
  // A pipe of another thread of the caller's would stay open for as long as drivers take.
  ocl::close_inherited_files();
  try {
    ocl::initialize();
    std::printf("%d\n", static_cast<int>(ocl::device_count()));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::printf("0\n");
    return 1;
  }
}
