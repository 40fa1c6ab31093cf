// Programs: a device's compiler knows only the device's extensions and versions of the language.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "tests/stern/entry_points.h"
#include "tests/stern/objects.h"
#include "tests/stern/profile.h"
#include "tests/stern/queries.h"
#include "tests/stern/report.h"

namespace stern {
namespace {

// Renumbers work-groups, and work-items in their group.
constexpr const char* kRenumbered = R"(
#define get_group_id(d) STERN_NUMBER(get_group_id(d), get_num_groups(d))
#define get_local_id(d) STERN_NUMBER(get_local_id(d), get_local_size(d))
#define get_global_id(d) (get_group_id(d) * get_local_size(d) + get_local_id(d) + get_global_offset(d))
)";

// Defines STERN_NUMBER(i, n), the new number of the i-th of n, or nothing.
std::string renumbering() {
  const std::string order = environment("STERN_ORDER", "forward");
  if (order == "forward") return "";
  if (order == "reversed") {
    return std::string("#define STERN_NUMBER(i, n) ((n) - 1 - (i))") + kRenumbered;
  }
  if (order != "random") {
    say("STERN_ORDER: \"" + order + "\" is not forward, reversed or random");
    std::exit(2);
  }
  // The multiples of a prime that does not divide n are all different modulo n.
  constexpr uint32_t kPrimes[] = {2147483647, 2147483629, 2147483587, 2147483579, 2147483563};
  std::mt19937 random(std::stoul(environment("STERN_SEED", "0")));
  const uint32_t prime = kPrimes[random() % std::size(kPrimes)], first = random();
  return "#define STERN_NUMBER(i, n) ((size_t)(((ulong)(i) * " + std::to_string(prime) + " + " +
         std::to_string(first) + ") % (n)))" + kRenumbered;
}

// Text in front of each source, which hides features that the device lacks.
std::string preamble() {
  const Profile& p = profile();
  std::string text;
  for (const char* name :
       {"cl_khr_fp64", "cl_khr_fp16", "cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics",
        "cl_khr_subgroups", "cl_khr_3d_image_writes", "cl_khr_spir"}) {
    if (!p.has(name)) text += std::string("#undef ") + name + "\n";
  }
  if (!p.has("cl_khr_fp64")) {
    text += "#undef __opencl_c_fp64\n#define double stern_this_device_has_no_double\n";
  }
  text +=
      "#undef __OPENCL_VERSION__\n#define __OPENCL_VERSION__ " + std::to_string(p.version) + "\n";
  text += renumbering();
  return text + "#line 1\n";
}

cl_program tracked(cl_context context, cl_program program) {
  if (program) programs().add(program, std::make_shared<Program>(program, context));
  return program;
}

// Counts the builds that run at once, and lets each take STERN_BUILD_MS.
struct Building {
  Building() {
    build_began();
    const int milliseconds = std::stoi(environment("STERN_BUILD_MS", "0"));
    if (milliseconds) std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }
  ~Building() { build_ended(); }
};

// Whether the options ask for a version of OpenCL C that the device does not have.
bool too_new(const char* options) {
  std::istringstream words(options ? options : "");
  for (std::string word; words >> word;) {
    int major = 0, minor = 0;
    if (std::sscanf(word.c_str(), "-cl-std=CL%d.%d", &major, &minor) == 2) {
      return major * 100 + minor * 10 > profile().language_version;
    }
  }
  return false;
}

std::vector<cl_device_id> real_devices(cl_uint count, const cl_device_id* devices) {
  std::vector<cl_device_id> real;
  for (cl_uint i = 0; devices && i < count; ++i) real.push_back(real_device(devices[i]));
  return real;
}

}  // namespace

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char** strings,
                                     const size_t* lengths, cl_int* code) {
  if (!count || !strings) {
    if (code) *code = CL_INVALID_VALUE;
    return nullptr;
  }
  const std::string first = preamble();
  std::vector<const char*> all{first.c_str()};
  std::vector<size_t> all_lengths{first.size()};
  for (cl_uint i = 0; i < count; ++i) {
    all.push_back(strings[i]);
    all_lengths.push_back(lengths ? lengths[i] : 0);
  }
  return tracked(context, next->clCreateProgramWithSource(context, count + 1, all.data(),
                                                          all_lengths.data(), code));
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id* devices,
                                     const size_t* lengths, const unsigned char** binaries,
                                     cl_int* status, cl_int* code) {
  const auto real = real_devices(count, devices);
  return tracked(context,
                 next->clCreateProgramWithBinary(context, count, devices ? real.data() : nullptr,
                                                 lengths, binaries, status, code));
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id* devices,
                      const char* options, void(CL_CALLBACK* notify)(cl_program, void*),
                      void* data) {
  if (!programs().find(program)) return refuse(CL_INVALID_PROGRAM, "clBuildProgram: no program");
  const Building building;
  if (too_new(options)) return refuse(CL_INVALID_BUILD_OPTIONS, options);
  const auto real = real_devices(count, devices);
  return next->clBuildProgram(program, count, devices ? real.data() : nullptr, options, notify,
                              data);
}

cl_int clCompileProgram(cl_program program, cl_uint count, const cl_device_id* devices,
                        const char* options, cl_uint headers, const cl_program* header_programs,
                        const char** header_names, void(CL_CALLBACK* notify)(cl_program, void*),
                        void* data) {
  const Building building;
  if (too_new(options)) return refuse(CL_INVALID_COMPILER_OPTIONS, options);
  const auto real = real_devices(count, devices);
  return next->clCompileProgram(program, count, devices ? real.data() : nullptr, options, headers,
                                header_programs, header_names, notify, data);
}

cl_program clLinkProgram(cl_context context, cl_uint count, const cl_device_id* devices,
                         const char* options, cl_uint inputs, const cl_program* input_programs,
                         void(CL_CALLBACK* notify)(cl_program, void*), void* data, cl_int* code) {
  const Building building;
  const auto real = real_devices(count, devices);
  return tracked(context, next->clLinkProgram(context, count, devices ? real.data() : nullptr,
                                              options, inputs, input_programs, notify, data, code));
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what,
                             size_t size, void* value, size_t* size_ret) {
  return next->clGetProgramBuildInfo(program, real_device(device), what, size, value, size_ret);
}

}  // namespace stern
