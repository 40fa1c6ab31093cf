// Queries, programs and the limits of launches.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>

#include "tests/stern/test_support.h"

namespace stern_test {
namespace {

constexpr const char* kAddOne = "kernel void f(global int* x) { x[get_global_id(0)] += 1; }";

// A file with other values in place of the smallest profile's.
std::string changed_profile(const std::map<std::string, std::string>& changes) {
  std::ifstream smallest(STERN_SMALLEST);
  const std::string path = testing::TempDir() + "stern_changed.profile";
  std::ofstream out(path);
  for (std::string line; std::getline(smallest, line);) {
    const std::string key = line.substr(0, line.find(' '));
    if (!changes.contains(key)) out << line << '\n';
  }
  for (const auto& [key, value] : changes) out << key << " = " << value << '\n';
  return path;
}

using LaunchTest = SternTest;

TEST_F(LaunchTest, QueriesAnswerFromTheProfile) {
  EXPECT_EQ(device.getInfo<CL_DEVICE_TYPE>(), cl_device_type{CL_DEVICE_TYPE_GPU});
  EXPECT_EQ(device.getInfo<CL_DEVICE_NAME>(), "Smallest GPU");
  EXPECT_EQ(device.getInfo<CL_DEVICE_MAX_WORK_GROUP_SIZE>(), 64u);
  EXPECT_EQ(device.getInfo<CL_DEVICE_MAX_WORK_ITEM_SIZES>(), (std::vector<size_t>{64, 64, 64}));
  EXPECT_EQ(device.getInfo<CL_DEVICE_DOUBLE_FP_CONFIG>(), 0u);
  EXPECT_EQ(device.getInfo<CL_DEVICE_EXTENSIONS>().find("fp64"), std::string::npos);
  // A query of OpenCL 3.0.
  EXPECT_EQ(clGetDeviceInfo(device(), 0x105E, 0, nullptr, nullptr), CL_INVALID_VALUE);
  cl::Platform platform(device.getInfo<CL_DEVICE_PLATFORM>());
  EXPECT_EQ(platform.getInfo<CL_PLATFORM_NAME>(), "Smallest");
}

TEST_F(LaunchTest, ACorrectProgramPasses) {
  cl::Kernel add = kernel(kAddOne);
  cl::Buffer x = buffer(4096);
  queue.enqueueFillBuffer(x, cl_int{41}, 0, 4096);
  add.setArg(0, x);
  cl::Event event;
  queue.enqueueNDRangeKernel(add, {}, {1024}, {32}, nullptr, &event);
  std::vector<cl_int> result(1024);
  queue.enqueueReadBuffer(x, CL_TRUE, 0, 4096, result.data());
  EXPECT_EQ(result, std::vector<cl_int>(1024, 42));
  EXPECT_LE(event.getProfilingInfo<CL_PROFILING_COMMAND_QUEUED>(),
            event.getProfilingInfo<CL_PROFILING_COMMAND_START>());
  EXPECT_LE(event.getProfilingInfo<CL_PROFILING_COMMAND_START>(),
            event.getProfilingInfo<CL_PROFILING_COMMAND_END>());
}

TEST_F(LaunchTest, ArgumentsAreThoseOfTheEnqueue) {
  cl::Kernel set = kernel("kernel void f(global int* x, int y) { x[0] = x[0] * 10 + y; }");
  cl::Buffer x = buffer(4);
  queue.enqueueFillBuffer(x, cl_int{0}, 0, 4);
  set.setArg(0, x);
  for (cl_int i = 1; i <= 4; ++i) {
    set.setArg(1, i);
    EXPECT_EQ(launch(set, {1}, {1}), CL_SUCCESS);
  }
  cl_int result = 0;
  queue.enqueueReadBuffer(x, CL_TRUE, 0, 4, &result);
  EXPECT_EQ(result, 1234);
}

TEST_F(LaunchTest, LimitsOfSizes) {
  cl::Kernel nothing = kernel("kernel void f() {}");
  EXPECT_EQ(launch(nothing, {65536}, {1}), CL_INVALID_GLOBAL_WORK_SIZE);
  EXPECT_EQ(launch(nothing, {1, 65536}, {1, 1}), CL_INVALID_WORK_GROUP_SIZE);
  EXPECT_EQ(launch(nothing, {1, 1, 65536}, {1, 1, 1}), CL_INVALID_WORK_GROUP_SIZE);
  EXPECT_EQ(launch(nothing, {65}, {65}), CL_INVALID_WORK_ITEM_SIZE);
  EXPECT_EQ(launch(nothing, {16, 16}, {16, 16}), CL_INVALID_WORK_GROUP_SIZE);
  EXPECT_EQ(launch(nothing, {10}, {8}), CL_INVALID_WORK_GROUP_SIZE);
  EXPECT_EQ(launch(nothing, {0}, {1}), CL_INVALID_GLOBAL_WORK_SIZE);
  EXPECT_EQ(launch(nothing, {64, 100}, {8, 1}), CL_SUCCESS);
  EXPECT_EQ(launch(nothing, {77}, cl::NullRange), CL_SUCCESS);
}

TEST_F(LaunchTest, SomeKernelsNeedSmallerGroups) {
  std::string source;
  for (int i = 0; i < 64; ++i) source += "kernel void f" + std::to_string(i) + "() {}\n";
  const cl::Kernel first = kernel(source, "f0");
  const cl::Program program = first.getInfo<CL_KERNEL_PROGRAM>();
  size_t smaller = 0;
  for (int i = 0; i < 64; ++i) {
    const cl::Kernel each(program, ("f" + std::to_string(i)).c_str());
    const auto limit = each.getWorkGroupInfo<CL_KERNEL_WORK_GROUP_SIZE>(device);
    EXPECT_EQ(limit % 8, 0u);
    if (limit == 64) continue;
    ++smaller;
    EXPECT_EQ(launch(each, {limit}, {limit}), CL_SUCCESS);
    EXPECT_EQ(launch(each, {64}, {64}), CL_INVALID_WORK_GROUP_SIZE);
  }
  EXPECT_GT(smaller, 0u);
  EXPECT_LT(smaller, 16u);
  const cl::Kernel fixed =
      kernel("kernel __attribute__((reqd_work_group_size(64, 1, 1))) void f() {}");
  EXPECT_EQ(fixed.getWorkGroupInfo<CL_KERNEL_WORK_GROUP_SIZE>(device), 64u);
  EXPECT_EQ(launch(fixed, {64}, {32}), CL_INVALID_WORK_GROUP_SIZE);
  EXPECT_EQ(launch(fixed, {64}, {64}), CL_SUCCESS);
}

TEST_F(LaunchTest, LimitOfLocalMemory) {
  cl::Kernel local = kernel(
      "kernel void f(local float* d, global float* x) { local float s[2048];"
      " s[get_local_id(0)] = x[0]; d[0] = s[0]; x[0] = d[0]; }");
  local.setArg(1, buffer(4));
  local.setArg(0, cl::Local(8192));
  cl::Buffer x = buffer(4);
  local.setArg(1, x);
  EXPECT_EQ(launch(local, {8}, {8}), CL_SUCCESS);
  local.setArg(0, cl::Local(8196));
  EXPECT_EQ(launch(local, {8}, {8}), CL_OUT_OF_RESOURCES);
}

TEST_F(LaunchTest, LimitOfArguments) {
  const char* source =
      "typedef struct { int v[SIZE]; } S;"
      "kernel void f(S s, global int* x) { x[0] = s.v[0]; }";
  cl::Buffer x = buffer(4);
  const std::vector<char> bytes(1024);
  for (const int words : {254, 255}) {
    std::string text = source;
    text.replace(text.find("SIZE"), 4, std::to_string(words));
    cl::Kernel large = kernel(text);
    large.setArg(0, words * 4, bytes.data());
    large.setArg(1, x);
    EXPECT_EQ(launch(large, {1}, {1}), words == 254 ? CL_SUCCESS : CL_OUT_OF_RESOURCES);
  }
}

TEST_F(LaunchTest, ArgumentsMustBeThere) {
  cl::Kernel add = kernel(kAddOne);
  EXPECT_EQ(launch(add, {8}, {8}), CL_INVALID_KERNEL_ARGS);
  {
    cl::Buffer gone = buffer(4096);
    add.setArg(0, gone);
  }
  EXPECT_EQ(launch(add, {8}, {8}), CL_INVALID_KERNEL_ARGS);
}

TEST_F(LaunchTest, TheCompilerKnowsWhatTheDeviceHas) {
  const auto build = [&](const char* source, const char* options = "") {
    cl::Program program(context, std::string(source));
    return clBuildProgram(program(), 1, &device(), options, nullptr, nullptr);
  };
  EXPECT_EQ(build("kernel void f(global double* x) { x[0] = 1; }"), CL_BUILD_PROGRAM_FAILURE);
  EXPECT_EQ(build("#ifdef cl_khr_fp64\n#error it has\n#endif\n"
                  "#if __OPENCL_VERSION__ != 120\n#error its version\n#endif\n"
                  "kernel void f() {}"),
            CL_SUCCESS);
  EXPECT_EQ(build("kernel void f() {}", "-cl-std=CL2.0"), CL_INVALID_BUILD_OPTIONS);
  EXPECT_EQ(build("kernel void f() {}", "-cl-std=CL1.2"), CL_SUCCESS);
}

class OrderTest : public SternTest {
 protected:
  // When each of 8 groups of 8 work-items ran; -1: its numbers do not belong together.
  std::vector<cl_int> ranks() {
    cl::Kernel order = kernel(
        "kernel void f(global int* x, global int* count) {"
        "  x[get_global_id(0)] = (get_group_id(0) * get_local_size(0) + get_local_id(0) =="
        "                         get_global_id(0)) ? atomic_inc(count) : -1; }");
    cl::Buffer x = buffer(64 * 4), count = buffer(4);
    queue.enqueueFillBuffer(count, cl_int{0}, 0, 4);
    order.setArg(0, x);
    order.setArg(1, count);
    EXPECT_EQ(launch(order, {64}, {8}), CL_SUCCESS);
    std::vector<cl_int> result(64);
    queue.enqueueReadBuffer(x, CL_TRUE, 0, 256, result.data());
    std::vector<cl_int> sorted = result, all(64);
    std::sort(sorted.begin(), sorted.end());
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    return result;
  }
  // Whether the work-items of the first group ran one after the other.
  static bool in_order(const std::vector<cl_int>& ranks) {
    return std::is_sorted(ranks.begin(), ranks.begin() + 8);
  }
};
using OrderDeathTest = OrderTest;

TEST_F(OrderTest, Forward) { EXPECT_TRUE(in_order(ranks())); }

TEST_F(OrderTest, Reversed) {
  const Setting reversed("STERN_ORDER", "reversed");
  const std::vector<cl_int> result = ranks();
  EXPECT_TRUE(std::is_sorted(result.rbegin() + 56, result.rend()));
}

TEST_F(OrderTest, RandomBySeed) {
  const Setting random("STERN_ORDER", "random");
  std::set<std::vector<bool>> seen;
  for (int seed = 0; seed < 6; ++seed) {
    const Setting setting("STERN_SEED", std::to_string(seed));
    const std::vector<cl_int> result = ranks();
    std::vector<bool> grows;
    for (int i = 0; i < 7; ++i) grows.push_back(result[i] < result[i + 1]);
    seen.insert(grows);
  }
  EXPECT_GT(seen.size(), 3u);
}

TEST_F(OrderDeathTest, UnknownOrdersAreErrors) {
  const Setting wrong("STERN_ORDER", "sideways");
  EXPECT_EXIT(kernel("kernel void f() {}"), testing::ExitedWithCode(2), "sideways");
}

TEST_F(LaunchTest, FailingQueriesAndTwoPlatforms) {
  const Setting odd("STERN_PROFILE", changed_profile({{"failing_query", "DEVICE_ADDRESS_BITS"},
                                                      {"duplicate_platform", "1"}}));
  EXPECT_EQ(code_of([&] { device.getInfo<CL_DEVICE_ADDRESS_BITS>(); }), CL_INVALID_VALUE);
  std::vector<cl::Platform> platforms;
  cl::Platform::get(&platforms);
  ASSERT_EQ(platforms.size(), 2u);
  EXPECT_NE(platforms[0](), platforms[1]());
  std::vector<cl::Device> devices;
  platforms[1].getDevices(CL_DEVICE_TYPE_GPU, &devices);
  EXPECT_NE(devices.at(0)(), device());
  EXPECT_EQ(devices[0].getInfo<CL_DEVICE_NAME>(), device.getInfo<CL_DEVICE_NAME>());
  EXPECT_EQ(devices[0].getInfo<CL_DEVICE_PLATFORM>(), platforms[1]());
  device = devices[0];
  context = cl::Context(device);
  queue = cl::CommandQueue(context, device);
  EXPECT_EQ(launch(kernel("kernel void f() {}"), {8}, {8}), CL_SUCCESS);
}

// Not through cl::Device, which calls functions that such a device lacks.
TEST_F(LaunchTest, ADeviceOfOpenCL11) {
  const Setting old("STERN_PROFILE", "amd_polaris_clover");
  cl_bool linker = CL_FALSE;
  EXPECT_EQ(clRetainDevice(device()), CL_INVALID_OPERATION);
  EXPECT_EQ(clGetDeviceInfo(device(), CL_DEVICE_LINKER_AVAILABLE, 4, &linker, nullptr),
            CL_INVALID_VALUE);
  cl::Buffer x = buffer(4);
  const cl_int one = 1;
  EXPECT_EQ(clEnqueueFillBuffer(queue(), x(), &one, 4, 0, 4, 0, nullptr, nullptr),
            CL_INVALID_OPERATION);
  const char* source = kAddOne;
  const cl::Program program(clCreateProgramWithSource(context(), 1, &source, nullptr, nullptr));
  EXPECT_EQ(clBuildProgram(program(), 1, &device(), "-cl-std=CL1.2", nullptr, nullptr),
            CL_INVALID_BUILD_OPTIONS);
  EXPECT_EQ(clBuildProgram(program(), 1, &device(), "", nullptr, nullptr), CL_SUCCESS);
}

TEST_F(LaunchTest, ThePlatformsVersionHasTheEntryPoints) {
  // A function of OpenCL 2.0; the headers are those of 1.2.
  using Create = cl_command_queue (*)(cl_context, cl_device_id, const cl_ulong*, cl_int*);
  const auto create_queue =
      reinterpret_cast<Create>(ocl::opencl_symbol("clCreateCommandQueueWithProperties"));
  ASSERT_TRUE(create_queue);
  const auto create = [&](const char* device_version, const char* platform_version) {
    const Setting other("STERN_PROFILE", changed_profile({{"DEVICE_VERSION", device_version},
                                                          {"PLATFORM_VERSION", platform_version}}));
    cl_int code = CL_SUCCESS;
    const cl::CommandQueue made(create_queue(context(), device(), nullptr, &code));
    return code;
  };
  EXPECT_EQ(create("OpenCL 1.2", "OpenCL 2.1"), CL_SUCCESS);
  EXPECT_EQ(create("OpenCL 1.2", "OpenCL 1.2"), CL_INVALID_OPERATION);
}

using ProfileDeathTest = SternTest;

TEST_F(ProfileDeathTest, MistakesInAProfileAreErrors) {
  const auto load = [](const std::map<std::string, std::string>& changes) {
    const Setting wrong("STERN_PROFILE", changed_profile(changes));
  };
  EXPECT_EXIT(load({{"grid_w", "1"}}), testing::ExitedWithCode(2), "unknown key grid_w");
  EXPECT_EXIT(load({{"grid_x", "many"}}), testing::ExitedWithCode(2), "grid_x = many");
  EXPECT_EXIT(load({{"DEVICE_MAX_WORK_ITEM_SIZES", "1 1"}}), testing::ExitedWithCode(2), "three");
}

TEST_F(LaunchTest, EveryProfileLoads) {
  const auto folder = std::filesystem::path(STERN_SMALLEST).parent_path();
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(file.path());
    if (file.path().stem() == "amd_polaris_clover") continue;  // ADeviceOfOpenCL11
    const Setting setting("STERN_PROFILE", file.path());
    open();
    EXPECT_EQ(device.getInfo<CL_DEVICE_TYPE>(), cl_device_type{CL_DEVICE_TYPE_GPU});
    EXPECT_EQ(launch(kernel("kernel void f() {}"), {16}, {1}), CL_SUCCESS);
    queue.finish();
  }
}

TEST_F(ProfileDeathTest, ReportsAtExit) {
  EXPECT_EXIT(
      {
        setenv("STERN_REPORT", "1", 1);
        setenv("STERN_LINT", "1", 1);
        setenv("STERN_BUILD_MS", "20", 1);
        cl::Kernel set =
            kernel("kernel void few(global int* x) { x[get_global_id(0)] = 1; }", "few");
        cl::Buffer x = buffer(2 << 20);
        set.setArg(0, x);
        launch(set, {65 * 8}, {8});
        queue.finish();
        std::exit(0);
      },
      testing::ExitedWithCode(0),
      "alive: contexts 1, queues 1, buffers 1, programs 1, kernels 1, events 0, maps 0; bytes of "
      "the device in use: 2097152(.|\n)*builds: 1, at most 1 at once(.|\n)*few, 1 launches: 1 in "
      "more than 64 groups of fewer than 32 work-items, 1 of fewer than 1000");
}

}  // namespace
}  // namespace stern_test
