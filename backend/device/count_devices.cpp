// Prints the number of OpenCL devices that torch-ocl can use on this machine, or that a driver hung
// or crashed (device_counter.h). It is a separate process, because listing devices starts driver
// threads, which a later fork of the caller would lose.
#include <cstdlib>
#include <string>

#include "backend/base/helper_process.h"
#include "backend/device/device.h"
#include "backend/device/device_counter.h"

int main(int, char** arguments) {
  ocl::helper::begin();
  ocl::helper::name_driver_that_fails(ocl::kDriverHung, ocl::kDriverCrashed,
                                      arguments[1] ? std::atoi(arguments[1]) : 0);
  try {
    ocl::initialize();
    ocl::helper::answer(std::to_string(int{ocl::device_count()}).c_str());
  } catch (const std::exception&) {
    ocl::helper::answer("0");  // the error at the first use of a device says why
  }
}
