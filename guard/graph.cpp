// torch.accelerator.Graph, where torch has it.
#if __has_include(<ATen/core/GraphImplInterface.h>)
#include "backend/launch/graph.h"

#include <ATen/core/GraphImplInterface.h>

#include <algorithm>
#include <fstream>

namespace ocl {
namespace {

struct GraphImpl final : at::GraphImplInterface {
  explicit GraphImpl(const at::GraphImplArgs& args) : graph_(args.keep_graph) {}

  // CUDA's mode restricts calls of the driver in other threads. All calls of OpenCL are safe, so it
  // is ignored.
  void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode) override {
    graph_.capture_begin(std::max(pool.first, pool.second));
  }
  void capture_end() override { graph_.capture_end(); }
  void instantiate() override { graph_.instantiate(); }
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  at::MempoolId_t pool() const override { return {0, graph_.pool()}; }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override {
    std::ofstream file(path);
    file << graph_.describe();
    TORCH_CHECK(file.good(), "cannot write ", path);
  }

 private:
  Graph graph_;
};

}  // namespace
}  // namespace ocl

namespace at {

// PyTorch looks for the implementation by the device's name.
REGISTER_GRAPH_IMPL(OCL, ocl::GraphImpl)

}  // namespace at
#endif
