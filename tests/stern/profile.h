// The GPU that the layer plays: a file of tests/stern/profiles, which STERN_PROFILE names.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/stern/stern.h"

namespace stern {

struct Profile {
  std::string name;
  // The answers to queries of platforms, devices and kernels, whose numbers do not overlap.
  std::map<cl_uint, std::vector<char>> answers;
  std::set<cl_uint> failing;   // queries that return an error
  std::string extensions;      // with a blank before and behind each
  int version = 120;           // 120 is OpenCL 1.2
  int language_version = 120;  // OpenCL C
  int runtime_version = 120;   // the platform's version, which decides the entry points
  // Limits that are enforced.
  uint64_t global_memory = 0, max_allocation = 0, free_memory = 0, local_memory = 0;
  size_t group_size = 0, item_sizes[3] = {}, argument_bytes = 0, base_alignment = 0;
  size_t group_multiple = 1;
  size_t grid[3] = {};              // work-groups
  uint64_t global_limit_x = 0;      // work-items
  uint64_t register_words = 0;      // per compute unit; 0: every kernel runs in full groups
  bool required_groups_fit = true;  // kernels with reqd_work_group_size run in full groups
  bool lazy_allocation = true;
  bool beyond_max_allocation = false;  // the driver grants buffers beyond MAX_MEM_ALLOC_SIZE
  bool duplicate_platform = false;
  std::string duplicate_driver;   // DRIVER_VERSION under the second platform, where it differs
  bool wait_flushes = true;       // clWaitForEvents flushes the events' queues
  bool marker_times = true;       // markers and barriers have times
  bool command_times = true;      // other commands have times
  bool queue_times = true;        // queues can have CL_QUEUE_PROFILING_ENABLE
  bool fills_reach_host = false;  // fills also write memory of CL_MEM_USE_HOST_PTR, at once

  bool has(const std::string& extension) const {
    return extensions.find(" " + extension + " ") != std::string::npos;
  }
};

// The profile of this process.
const Profile& profile();

// Reads the file that STERN_PROFILE names; a mistake in it ends the process.
void load_profile();

}  // namespace stern
