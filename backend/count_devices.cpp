// Prints the number of OpenCL devices that torch-ocl can use on this machine. This is a separate
// process, because listing devices starts driver threads, which a later fork of the caller would
// lose.
#include <cstdio>

#include "backend/device.h"
#include "backend/system.h"

int main() {
  // Otherwise inherited pipes of the caller's other threads would stay open until drivers are done.
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
