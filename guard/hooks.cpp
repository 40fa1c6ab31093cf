// The hooks that PyTorch needs in addition to the guard: generators, pinned memory, initialisation.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "backend/base/error.h"
#include "backend/memory/allocator.h"
#include "backend/memory/host_allocator.h"
#include "generator/generator.h"

namespace ocl {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(DeviceIndex index) const override {
    return initialized() && index >= 0 && index < device_count() && device(index).has_context();
  }
  void init() const override { initialize(); }

  DeviceIndex deviceCount() const override { return device_count(); }
  DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(DeviceIndex index) const override { set_current_device(index); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    const DeviceIndex former = current_device();
    set_current_device(index);
    return former;
  }
  // A negative index keeps the current device.
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    return index < 0 ? current_device() : exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(DeviceIndex index) const override { return make_generator(index); }

  at::Device getDeviceFromPtr(void* data) const override {
    return {c10::DeviceType::PrivateUse1, resolve(data).device().index()};
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return host_allocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage, bytes, NewBytes::kZero);
  }
};

const bool registered = (at::RegisterPrivateUse1HooksInterface(new Hooks), true);

}  // namespace
}  // namespace ocl
