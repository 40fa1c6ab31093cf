#include "python/graph.h"

#include "backend/launch/graph.h"
#include "backend/memory/allocator.h"

namespace ocl {

// Pools are pairs for Python, as torch.cuda's are: (0, number).
void bind_graph(pybind11::module_& m) {
  namespace py = pybind11;
  using py::literals::operator""_a;
  using Unlocked = py::call_guard<py::gil_scoped_release>;
  py::class_<Graph>(m, "Graph")
      .def(py::init<bool>(), "keep_graph"_a = false)
      .def("capture_begin", &Graph::capture_begin, "pool"_a = 0, Unlocked())
      .def("capture_end", &Graph::capture_end, Unlocked())
      .def("instantiate", &Graph::instantiate, Unlocked())
      .def("replay", &Graph::replay, Unlocked())
      .def("reset", &Graph::reset, Unlocked())
      .def("pool", &Graph::pool)
      .def("describe", &Graph::describe)
      .def("__len__", &Graph::size);
  m.def("new_pool", &Allocator::new_pool);
  m.def("capturing", &capturing);
}

}  // namespace ocl
