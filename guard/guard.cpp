// The device guard: the interface of PyTorch's core to devices, streams and events. It overrides
// every virtual of DeviceGuardImplInterface.
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <mutex>
#include <utility>

#include "backend/base/error.h"
#include "backend/base/sync_debug.h"
#include "backend/memory/allocator.h"
#include "backend/queue/event.h"

namespace ocl {
namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

// Threads may share an event: one may record it again while others wait for the previous mark.
class SharedEvent {
 public:
  void record(Stream& stream, bool timed) {
    Event marked;
    marked.record(stream, timed);
    std::lock_guard lock(mutex_);
    std::swap(event_, marked);
  }
  Event get() {
    refuse_fork();
    std::lock_guard lock(mutex_);
    return event_;
  }

 private:
  std::mutex mutex_;
  Event event_;
};

// torch keeps events as void*.
SharedEvent* as_event(void* event) { return static_cast<SharedEvent*>(event); }

void check_type(c10::Device device) {
  TORCH_CHECK_VALUE(device.type() == kType, "expected an ocl device, got ", device);
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  Guard() = default;
  explicit Guard(c10::DeviceType type) { TORCH_INTERNAL_ASSERT(type == kType); }

  c10::DeviceType type() const override { return kType; }

  c10::Device exchangeDevice(c10::Device device) const override {
    check_type(device);
    const DeviceIndex former = current_device();
    if (device.index() != former) set_current_device(device.index());
    return {kType, former};
  }

  c10::Device getDevice() const override { return {kType, current_device()}; }

  void setDevice(c10::Device device) const override {
    check_type(device);
    set_current_device(device.index());
  }

  void uncheckedSetDevice(c10::Device device) const noexcept override {
    set_current_device_unchecked(device.index());
  }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(index_of(device)).unpack();
  }

  c10::Stream getDefaultStream(c10::Device device) const override {
    return default_stream(index_of(device)).unpack();
  }

  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high_priority) const override {
    return stream_from_pool(index_of(device), high_priority);
  }

  // Negative priorities are high, as in torch.cuda.
  c10::Stream getNewStream(c10::Device device, int priority) const override {
    return stream_from_pool(index_of(device), priority < 0);
  }

  c10::Stream exchangeStream(c10::Stream stream) const override { return exchange_stream(stream); }

  // No `override`, because torch 2.11 does not have it.
  virtual void* getStreamNativeHandle(const c10::Stream stream) const {
    return ocl::stream(stream).lasting_queue()();
  }

  // No `override`, for the same reason.
  virtual bool isStreamCapturing(const c10::Stream& stream) const {
    return ocl::stream(stream).captured();
  }

  DeviceIndex deviceCount() const noexcept override { return device_count(); }

  c10::DeviceCapability getDeviceCapability(c10::Device device) const override {
    c10::DeviceCapability capability;
    auto& types = capability.capability_data.supported_scalar_types;
    const bool fp64 = ocl::device(index_of(device)).properties().has_fp64;
    capability.capability_data.capability_bits = 0;
    types.has_Byte = types.has_Char = types.has_Short = types.has_Int = types.has_Long = 1;
    types.has_Half = types.has_BFloat16 = types.has_Float = types.has_Bool = 1;
    types.has_ComplexFloat = 1;
    types.has_Double = types.has_ComplexDouble = fp64;
    return capability;
  }

  bool queryStream(const c10::Stream& stream) const override { return ocl::stream(stream).idle(); }
  void synchronizeStream(const c10::Stream& stream) const override {
    note_wait("wait for a stream");
    ocl::stream(stream).finish();
  }
  void synchronizeDevice(const DeviceIndex index) const override { synchronize(index); }

  void record(void** event, const c10::Stream& stream, const DeviceIndex device_index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK_VALUE(device_index == -1 || device_index == stream.device_index(),
                      "an event of ocl:", int{device_index}, " cannot be recorded on a stream of ",
                      stream.device());
    {
      static std::mutex mutex;
      std::lock_guard lock(mutex);
      if (!*event) *event = new SharedEvent;
    }
    as_event(*event)->record(ocl::stream(stream), flag == c10::EventFlag::BACKEND_DEFAULT);
  }

  void block(void* event, const c10::Stream& stream) const override {
    if (event) as_event(event)->get().block(ocl::stream(stream));
  }

  bool queryEvent(void* event) const override { return !event || as_event(event)->get().query(); }

  void synchronizeEvent(void* event) const override {
    if (event) as_event(event)->get().synchronize();
  }

  void destroyEvent(void* event, const DeviceIndex) const noexcept override {
    delete as_event(event);
  }

  double elapsedTime(void* start, void* end, const DeviceIndex) const override {
    TORCH_CHECK_VALUE(start && end, "elapsed_time needs both events to be recorded first");
    return as_event(start)->get().elapsed_ms(as_event(end)->get());
  }

  void recordDataPtrOnStream(const c10::DataPtr& pointer,
                             const c10::Stream& stream) const override {
    Allocator::instance().recordStream(pointer, stream);
  }

 private:
  static DeviceIndex index_of(c10::Device device) {
    check_type(device);
    return device.has_index() ? device.index() : current_device();
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

}  // namespace
}  // namespace ocl
