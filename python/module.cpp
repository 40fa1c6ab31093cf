// The extension module torch_ocl._C: names for Python, no logic.
#include <torch/csrc/Device.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/pybind.h>

#include "backend/base/sync_debug.h"
#include "backend/device/device_counter.h"
#include "backend/device/listing.h"
#include "backend/launch/launch.h"
#include "backend/program/program_cache.h"
#include "backend/program/tuning.h"
#include "backend/queue/stream.h"
#ifdef OCL_HAS_DISTRIBUTED
#include "distributed/backend.h"
#endif
#include "generator/generator.h"
#include "kernels/conv/common/conv.h"
#include "kernels/conv/conv_algorithms.h"
#include "kernels/conv/gpu/conv_direct_gpu.h"
#include "kernels/core/matrix_units/matrix_unit.h"
#include "kernels/core/types/dtype.h"
#include "kernels/dispatch/fallback.h"
#include "kernels/matmul/gemm_problem.h"
#include "kernels/matmul/gpu/gemm_unit.h"
#include "kernels/pointwise/pointwise_ops.h"
#include "python/generated_kernel.h"
#include "python/graph.h"
#include "python/interop.h"
#include "python/memory.h"
#include "python/threads.h"
#include "serialization/image_description.h"

namespace py = pybind11;
using py::literals::operator""_a;

static std::string describe_properties(const ocl::DeviceProperties& p) {
  return c10::str("DeviceProperties(name='", p.name, "', type='", p.type, "', platform='",
                  p.platform, "', major=", p.version_major, ", minor=", p.version_minor,
                  ", total_memory=", p.total_memory >> 20,
                  "MB, multi_processor_count=", p.max_compute_units, ", has_fp64=", p.has_fp64,
                  ", has_fp16=", p.has_fp16, ", kernel_family='", ocl::family_name(p.family), "')");
}

// (name, reason, source) of each quirk of the device.
std::vector<std::tuple<std::string_view, std::string_view, std::string_view>> describe_quirks(
    const ocl::DeviceProperties& p) {
  std::vector<std::tuple<std::string_view, std::string_view, std::string_view>> found;
  for (const ocl::QuirkRow& row : ocl::quirk_rows()) {
    if (ocl::applies(row, p)) found.emplace_back(row.name, row.reason, row.source);
  }
  return found;
}

// (name, reason) of each device that was found but is not used.
std::vector<std::pair<std::string, std::string>> describe_skipped_devices() {
  std::vector<std::pair<std::string, std::string>> skipped;
  for (const ocl::SkippedDevice& each : ocl::skipped_devices()) {
    skipped.emplace_back(each.name, each.reason);
  }
  return skipped;
}

// Like device_count(), but Ctrl-C ends the wait for a driver that hangs.
int count_devices_or_interrupt() {
  for (;;) {
    std::optional<c10::DeviceIndex> counted;
    {
      const py::gil_scoped_release unlocked;
      counted = ocl::initialized() ? ocl::device_count()
                                   : ocl::count_devices(std::chrono::milliseconds(100));
    }
    if (counted) return int{*counted};
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

PYBIND11_MODULE(_C, m) {
  using namespace ocl;
  m.attr("max_devices") = kMaxDevices;
  m.def("skipped_devices", &describe_skipped_devices);

  py::class_<DeviceProperties>(m, "DeviceProperties")
#define OCL_PROPERTY(name) .def_readonly(#name, &DeviceProperties::name)
      OCL_PROPERTY(name) OCL_PROPERTY(vendor) OCL_PROPERTY(platform) OCL_PROPERTY(driver_version)
          OCL_PROPERTY(version) OCL_PROPERTY(type) OCL_PROPERTY(total_memory)
              OCL_PROPERTY(max_allocation) OCL_PROPERTY(local_memory)
                  OCL_PROPERTY(max_work_group_size) OCL_PROPERTY(max_parameter_size)
                      OCL_PROPERTY(max_compute_units) OCL_PROPERTY(native_vector_width_float)
                          OCL_PROPERTY(has_fp64) OCL_PROPERTY(has_fp16)
                              OCL_PROPERTY(has_int64_atomics) OCL_PROPERTY(has_subgroups)
                                  OCL_PROPERTY(has_profiling) OCL_PROPERTY(host_unified_memory)
                                      OCL_PROPERTY(version_major) OCL_PROPERTY(version_minor)
#undef OCL_PROPERTY
                                          // torch.cuda's names
                                          .def_readonly("major", &DeviceProperties::version_major)
                                          .def_readonly("minor", &DeviceProperties::version_minor)
                                          .def_readonly("multi_processor_count",
                                                        &DeviceProperties::max_compute_units)
                                          .def("__repr__", &describe_properties)
                                          .def_property_readonly("quirks", &describe_quirks)
                                          .def_property_readonly("kernel_family",
                                                                 [](const DeviceProperties& p) {
                                                                   return family_name(p.family);
                                                                 });

  // For functions that start drivers, compile programs or wait for the device.
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  m.def("init", &initialize, Unlocked());
  m.def("is_initialized", &initialized);
  m.def("is_in_bad_fork", &in_bad_fork);
  m.def("device_count", &count_devices_or_interrupt);
  m.def("current_device", [] { return int{current_device()}; });
  m.def("set_device", &set_current_device, Unlocked());
  m.def(
      "properties", [](DeviceIndex index) { return device(index).properties(); }, "device"_a,
      Unlocked());
  m.def("synchronize", &synchronize, Unlocked());
  m.def("synchronize_quietly", &synchronize_quietly, Unlocked());
  m.def("sync_debug_mode", [] { return static_cast<int>(sync_debug.load()); });
  m.def("set_sync_debug_mode", [](int mode) { sync_debug = static_cast<SyncDebug>(mode); });

  bind_memory(m);
  bind_generated_kernels(m);
  bind_graph(m);
  bind_interop(m);
  bind_threads(m);

  m.def("default_generator", [](DeviceIndex index) { return default_generator(index); });

  py::class_<ImageDescription>(m, "ImageDescription")
      .def(py::init<std::string, std::string, std::optional<std::pair<double, double>>>(),
           "color_space"_a, "channel_order"_a, "value_range"_a)
      .def_readonly("color_space", &ImageDescription::color_space)
      .def_readonly("channel_order", &ImageDescription::channel_order)
      .def_readonly("value_range", &ImageDescription::value_range);
  const auto names = [](std::span<const char* const> known) {
    return py::tuple(py::cast(std::vector<std::string>(known.begin(), known.end())));
  };
  m.attr("COLOR_SPACES") = names(color_spaces());
  m.attr("CHANNEL_ORDERS") = names(channel_orders());
  m.def("describe", [](const at::Tensor& tensor, const ImageDescription& description) {
    describe(tensor, description);
  });
  m.def("description", [](const at::Tensor& tensor) { return description_of(tensor); });

  m.def("fallback_stats", &fallback_stats);
  m.def("reset_fallback_stats", &reset_fallback_stats);
  py::class_<GemmTile>(m, "GemmTile")
      .def_readonly("m", &GemmTile::m)
      .def_readonly("n", &GemmTile::n)
      .def_readonly("k", &GemmTile::k)
      .def_property_readonly("items", &GemmTile::items);
  m.def("gemm_gpu_tiles",
        [] { return std::vector<GemmTile>(gemm_gpu_tiles().begin(), gemm_gpu_tiles().end()); });
  py::class_<UnitTile>(m, "UnitTile")
      .def_readonly("m", &UnitTile::m)
      .def_readonly("n", &UnitTile::n);
  m.def("gemm_unit_tiles",
        [] { return std::vector<UnitTile>(gemm_unit_tiles().begin(), gemm_unit_tiles().end()); });
  m.def("matrix_units", &matrix_unit_names);
  m.def(
      "matrix_unit", [](DeviceIndex index) { return describe_matrix_unit(device(index)); },
      "device"_a, Unlocked());
  m.def("emulate_matrix_unit", &emulate_matrix_unit, "name"_a);
  m.def("convolution_format", &convolution_format, "input"_a, "weight"_a);
  m.def("prefer_conv_algorithm", &prefer_conv_algorithm, "name"_a);
  m.def("set_conv_byte_limit", &set_conv_byte_limit, "bytes"_a);
  m.def("prefer_gemm_algorithm", &prefer_gemm_algorithm, "name"_a);
  py::class_<PointwiseOp>(m, "PointwiseOp")
      .def_readonly("name", &PointwiseOp::name)
      .def_readonly("expression", &PointwiseOp::expression)
      .def_readonly("header", &PointwiseOp::header);
  m.def("pointwise_rows", [] { return pointwise_rows().vec(); });
  m.def("element_types", &element_types);
  m.def("last_kernel", &last_kernel);
  m.def("kernel_objects", &kernel_objects);
  m.def("launch_count", &launch_count);
  m.def("program_cache_stats", [] {
    const ProgramCacheStats stats = program_cache_stats();
    return std::map<std::string, uint64_t>{{"built", stats.built}, {"loaded", stats.loaded}};
  });
  m.def("store_programs", &store_programs, Unlocked());

  py::class_<TunedProblem>(m, "TunedProblem")
      .def_readonly("tunable", &TunedProblem::tunable)
      .def_readonly("problem", &TunedProblem::problem)
      .def_readonly("candidates", &TunedProblem::candidates)
      .def_readonly("choice", &TunedProblem::choice);
  m.def("last_tuned", &last_tuned);
  m.def("forget_tuned", &forget_tuned);
  m.def("force_tuned", &force_tuned, "tunable"_a, "choice"_a);
  m.def("set_tuned", &set_tuned, "device"_a, "tunable"_a, "problem"_a, "choice"_a, Unlocked());
  m.def("save_tuned", &save_tuned, "device"_a, Unlocked());

#ifdef OCL_HAS_DISTRIBUTED
  m.def("distributed_backend", &make_distributed_backend, "gloo"_a);
  m.def("keep_released", &keep_released, Unlocked());
#endif
}
