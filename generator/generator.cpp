#include "generator/captured_draws.h"

#include <ATen/Utils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/TensorOptions.h>

#include <array>
#include <cstring>
#include <memory>
#include <mutex>

namespace ocl {
namespace {

c10::Device device_or_current(DeviceIndex index) {
  return {c10::DeviceType::PrivateUse1, index < 0 ? current_device() : index};
}

}  // namespace

GeneratorImpl::GeneratorImpl(DeviceIndex device)
    : c10::GeneratorImpl(device_or_current(device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      state_{c10::default_rng_seed_val, 0} {}

void GeneratorImpl::set_current_seed(uint64_t seed) { state_ = {seed, 0}; }

uint64_t GeneratorImpl::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return state_.seed;
}

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK_VALUE(state.numel() == sizeof(PhiloxState), "an ocl generator's state has ",
                    sizeof(PhiloxState), " bytes, got ", state.numel());
  std::memcpy(&state_, state.data(), sizeof(PhiloxState));
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  const at::Tensor state = at::empty({sizeof(PhiloxState)}, at::kByte);
  std::memcpy(state.mutable_data_ptr(), &state_, sizeof(PhiloxState));
  return state.getIntrusivePtr();
}

PhiloxState GeneratorImpl::advance(uint64_t counters) {
  const PhiloxState taken = state_;
  state_.offset += counters;
  return taken;
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  copy->state_ = state_;
  return copy;
}

PhiloxState draw(const std::optional<at::Generator>& generator, DeviceIndex device,
                 uint64_t counters) {
  auto* chosen = at::get_generator_or_default<GeneratorImpl>(generator, default_generator(device));
  if (Capture* capture = current_stream(device).capture(); C10_UNLIKELY(capture != nullptr)) {
    return draw_captured(*capture, *chosen, counters);
  }
  std::lock_guard lock(chosen->mutex_);
  return chosen->advance(counters);
}

at::Generator make_generator(DeviceIndex device) {
  return at::make_generator<GeneratorImpl>(device);
}

const at::Generator& default_generator(DeviceIndex device) {
  // Leaked, like the devices. A generator is made at its first use, for any device index, so that
  // OpenCL is not started.
  static auto* const generators = new std::array<at::Generator, 64>;
  static std::mutex mutex;
  const auto index = device_or_current(device).index();
  TORCH_CHECK(static_cast<size_t>(index) < generators->size(),
              "there is no device ocl:", static_cast<int>(index));
  std::lock_guard lock(mutex);
  at::Generator& generator = (*generators)[index];
  if (!generator.defined()) {
    generator = make_generator(index);
    generator.seed();
  }
  return generator;
}

}  // namespace ocl
