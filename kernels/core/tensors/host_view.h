// CPU tensors over the mapped memory of ocl tensors, valid until write_back(). No byte is copied
// where host and device share memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <list>
#include <vector>

#include "backend/memory/transfer.h"

namespace ocl {

class HostViews {
 public:
  // Notes a tensor that will be viewed; call for all tensors before the first view().
  void add(const at::Tensor& tensor, MapAccess access);

  // A CPU tensor over the mapped memory. If its storage is resized, the storage owns new memory.
  at::Tensor view(const at::Tensor& tensor);

  // Writes the host's changes back to the device, and closes the views. The destructor closes them,
  // too, but does not write copies back. Views that are copies stay readable until the destructor.
  void write_back();

 private:
  // Tensors of one storage share one map, since overlapping maps for writing are undefined.
  struct Region {
    const c10::StorageImpl* storage;
    uintptr_t begin, end;  // addresses as in data_ptr()
    MapAccess access;
    DeviceIndex device;
    std::vector<at::Tensor> written;
    bool copies_written = false;  // write_back() copies each tensor of `written`
    std::optional<Mapping> mapping;

    bool has_unwritten_bytes() const;
  };
  Region* find(const at::Tensor& tensor);

  std::list<Region> regions_;
  std::list<Mapping> closed_;  // may own copies that are still read
};

}  // namespace ocl
