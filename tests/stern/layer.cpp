// The functions that the loader calls, and the table of entry points. Each entry point first asks
// STERN_FAIL.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <tuple>

#include "tests/stern/entry_points.h"
#include "tests/stern/failure.h"
#include "tests/stern/profile.h"
#include "tests/stern/report.h"
#include "tests/stern/scheduler.h"

namespace stern {
namespace {

cl_icd_dispatch entry_points;

// Returns `code` in the way in which a function of this type does it.
template <class R, class... A>
R fail(cl_int code, A... args) {
  if constexpr (std::is_same_v<R, cl_int>) {
    return code;
  } else if constexpr (!std::is_void_v<R>) {
    const auto last = std::get<sizeof...(A) - 1>(std::tuple(args...));
    if constexpr (std::is_same_v<decltype(last), cl_int* const>) {
      if (last) *last = code;
    }
    return nullptr;
  }
}

// One function for each entry point (`unique` is its type's only difference to others).
template <auto unique, class Function>
struct Entry;

template <auto unique, class R, class... A>
struct Entry<unique, R(A...)> {
  static inline R (*inner)(A...) = nullptr;  // nullptr: refused
  static inline CallCount* calls = nullptr;
  static inline int version = 100;  // the version of OpenCL that introduced it

  static R CL_API_CALL call(A... args) {
    if (const cl_int code = calls->count()) return fail<R>(code, args...);
    if (!inner || version > profile().runtime_version)
      return fail<R>(CL_INVALID_OPERATION, args...);
    return inner(args...);
  }
};

void fill_table() {
#define STERN_ENTRY(name, function)                                                   \
  {                                                                                   \
    using Here = Entry<&cl_icd_dispatch::name, std::remove_pointer_t<cl_api_##name>>; \
    Here::inner = function;                                                           \
    Here::calls = &call_count(#name);                                                 \
    entry_points.name = Here::call;                                                   \
  }
#define X(name) STERN_ENTRY(name, stern::name)
  STERN_OWN(X)
#undef X
#define X(name) STERN_ENTRY(name, next->name)
  STERN_PASSED_ON(X)
#undef X
#define X(name) STERN_ENTRY(name, nullptr)
  STERN_REFUSED(X)
#undef X
#define X(name) Entry<&cl_icd_dispatch::name, std::remove_pointer_t<cl_api_##name>>::version = 120;
  STERN_SINCE_1_2(X)
#undef X
}

}  // namespace
}  // namespace stern

extern "C" {

// Reads the environment anew. Tests call it; no object may be alive.
__attribute__((visibility("default"))) void stern_configure() {
  stern::load_profile();
  stern::load_failures();
  stern::load_schedule();
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what,
                                                                         size_t size, void* value,
                                                                         size_t* size_ret) {
  if (what != CL_LAYER_API_VERSION) return CL_INVALID_VALUE;
  const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
  if (value && size < sizeof version) return CL_INVALID_VALUE;
  if (value) std::memcpy(value, &version, sizeof version);
  if (size_ret) *size_ret = sizeof version;
  return CL_SUCCESS;
}

__attribute__((visibility("default"))) cl_int CL_API_CALL
clInitLayer(cl_uint entries, const cl_icd_dispatch* target, cl_uint* entries_ret,
            const cl_icd_dispatch** table_ret) {
  constexpr cl_uint kEntries = sizeof(cl_icd_dispatch) / sizeof(void*);
  if (entries < kEntries) return CL_INVALID_VALUE;
  // A process may have several loaders, such as pyopencl's own, and they share the objects.
  if (!stern::next) {
    stern::next = target;
    stern::entry_points = *target;
    stern_configure();
    stern::fill_table();
    static const pid_t process = getpid();
    std::atexit([] {
      if (getpid() != process) return;  // a fork has no threads of the scheduler
      stern::stop_scheduler();
      stern::report_at_exit();
    });
  }
  *entries_ret = kEntries;
  *table_ret = &stern::entry_points;
  return CL_SUCCESS;
}

}  // extern "C"
