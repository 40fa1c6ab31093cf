// The report at exit: STERN_REPORT=1, objects that are alive; STERN_COUNT=1, the calls of each
// entry point; STERN_LINT=1, kernels whose launches would be slow on a GPU.
#pragma once

#include <cstddef>
#include <string>

namespace stern {

void lint(const std::string& kernel, size_t items, size_t group, size_t buffer_bytes);

void build_began();
void build_ended();

void report_at_exit();

}  // namespace stern
