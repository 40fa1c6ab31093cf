// CPU tensors for Gloo over the memory of ocl tensors: mapped, or copied there and back (Mapping).
//
//   staging.read(input);
//   staging.write(output);
//   staging.map();
//   gloo.collective(staging.host(output), staging.host(input));
//   staging.unmap();
#pragma once

#include <ATen/core/Tensor.h>

#include <unordered_map>
#include <vector>

#include "backend/memory/storage.h"
#include "backend/memory/transfer.h"
#include "distributed/issuer.h"

namespace ocl {

inline bool on_ocl_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_privateuseone();
}

class Staging {
 public:
  // Note a contiguous tensor that will be read, or written as a whole. CPU and sparse tensors are
  // not mapped.
  void read(const at::Tensor& tensor) { add(tensor, true, false); }
  void write(const at::Tensor& tensor);

  // The memory of the tensors, and whether it will be written. A written sparse tensor will get new
  // memory, so the address of its TensorImpl is among the ranges, too.
  MemoryRanges memory() const;

  // Maps on the current streams of the tensors' devices, and waits for the commands there. It does
  // not wait for later commands of the caller's stream, such as the rest of a backward pass.
  void map();
  // Enqueues the unmaps on the streams that were current at map(), and raises the first failure.
  void unmap();
  // Like unmap(), but copies of the memory are not written back, and failures are logged.
  void abandon() { mappings_.clear(); }
  // The tensors' storages can be resized again.
  void release() { holds_.clear(); }

  // The tensor as it was at read() or write(): the user may have given it other memory since, as by
  // `tensor.data = other`. CPU and sparse tensors are returned as they are.
  const at::Tensor& noted(const at::Tensor& tensor) const;
  // The CPU tensor for a noted tensor.
  at::Tensor host(const at::Tensor& tensor) const;

 private:
  struct Range {
    const c10::StorageImpl* storage;  // a noted tensor keeps it alive
    DeviceIndex device;
    uintptr_t begin, end;  // addresses as in data_ptr()
    bool reads, writes;
  };
  void add(const at::Tensor& tensor, bool reads, bool writes);
  void merge();

  MemoryRanges sparse_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> noted_;
  std::vector<StorageHold> holds_;
  std::vector<Range> ranges_;      // in order of addresses after map()
  std::vector<Mapping> mappings_;  // one per range
};

}  // namespace ocl
