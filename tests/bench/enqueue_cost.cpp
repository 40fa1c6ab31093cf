// Prints what the runtime itself takes for a small launch: microseconds per kernel of 16 elements
// with the ten arguments of an element-wise kernel, enqueued one after the other and executed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "backend/device/device.h"

namespace {

constexpr const char* kSource = R"(
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void add(
    __global char *out, const ulong out_offset, __global const char *in, const ulong in_offset,
    const float b, const float alpha, const ulong inner, const ulong rows, const ulong segment,
    const ulong per_task) {
  __global float *y = (__global float *)(out + out_offset);
  __global const float *x = (__global const float *)(in + in_offset);
  for (ulong i = 0; i < inner; i += 16) vstore16(vload16(0, x + i) + alpha * b, 0, y + i);
})";
constexpr int kLaunches = 1000, kRounds = 31, kFlushInterval = 8;

double microseconds_per_launch(cl::CommandQueue& queue, cl::Kernel& add, const cl::Buffer& buffer) {
  const cl_ulong zero = 0, inner = 16, one = 1;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) {
    for (const cl_uint argument : {0u, 2u}) {
      add.setArg(argument, buffer);
      add.setArg(argument + 1, zero);
    }
    for (const cl_uint argument : {4u, 5u}) add.setArg(argument, 1.0f);
    add.setArg(6, inner);
    for (const cl_uint argument : {7u, 8u, 9u}) add.setArg(argument, one);
    queue.enqueueNDRangeKernel(add, cl::NullRange, cl::NDRange(1, 1, 1), cl::NDRange(1, 1, 1));
    if (i % kFlushInterval == 0) queue.flush();
  }
  queue.finish();
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  return time.count() / kLaunches;
}

}  // namespace

int main() {
  try {
    ocl::Device& device = ocl::device(0);
    const cl::Context& context = device.context();
    cl::CommandQueue queue(context, device.handle(), CL_QUEUE_PROFILING_ENABLE);
    cl::Program program(context, kSource);
    program.build("");  // not as the constructor would: clhpp asks for OpenCL C 2.0
    cl::Kernel add(program, "add");
    const cl::Buffer buffer(context, CL_MEM_READ_WRITE, 4096);
    std::vector<double> times;
    for (int round = 0; round < kRounds; ++round) {
      times.push_back(microseconds_per_launch(queue, add, buffer));
    }
    std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
    std::printf("%.3f\n", times[kRounds / 2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
