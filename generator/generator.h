// The random generator of a device: Philox 4x32-10, counter-based, so that the same seed gives the
// same numbers on every device and with every launch size.
//
// Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include "backend/device/device.h"

namespace ocl {

// A position in the generator's sequence: a kernel's element i draws from counter offset + i.
struct PhiloxState {
  uint64_t seed;
  uint64_t offset;
};

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(DeviceIndex device);

  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  void set_current_seed(uint64_t seed) override;  // also sets the offset to 0
  uint64_t current_seed() const override { return state_.seed; }
  uint64_t seed() override;  // sets a random seed from the system
  void set_offset(uint64_t offset) override { state_.offset = offset; }
  uint64_t get_offset() const override { return state_.offset; }
  // The state is a CPU tensor of 16 bytes: seed and offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  // Takes `counters` counters from the sequence for a launch. The caller must hold mutex_.
  PhiloxState advance(uint64_t counters);

 private:
  GeneratorImpl* clone_impl() const override;

  PhiloxState state_;
};

// The default generator of the device (-1: the current one).
const at::Generator& default_generator(DeviceIndex device);

// Takes `counters` counters from the sequence of the generator, or of the device's default one.
// While the current stream is captured, the result is a placeholder for the state of each replay
// (captured_draws.h), which only add_philox() can pass to kernels.
PhiloxState draw(const std::optional<at::Generator>& generator, DeviceIndex device,
                 uint64_t counters);

// A new generator, seeded with torch's default seed.
at::Generator make_generator(DeviceIndex device);

}  // namespace ocl
