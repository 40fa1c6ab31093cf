#include "kernels/matmul/clblast.h"

#include <ATen/ceil_div.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "backend/base/environment.h"
#include "backend/base/error.h"
#include "backend/base/system.h"
#include "backend/queue/memory_hooks.h"

namespace ocl {
namespace {

// The constants and types of clblast_c.h, repeated so that a build needs no CLBlast.
constexpr int kRowMajor = 101, kNotTransposed = 111, kTransposed = 112;

template <typename T>
using Gemm = int (*)(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k,
                     T alpha, cl_mem a, size_t a_offset, size_t a_ld, cl_mem b, size_t b_offset,
                     size_t b_ld, T beta, cl_mem c, size_t c_offset, size_t c_ld,
                     cl_command_queue* queue, cl_event* event);
template <typename T>
using GemmBatched = int (*)(int layout, int a_transpose, int b_transpose, size_t m, size_t n,
                            size_t k, T alpha, cl_mem a, size_t a_offset, size_t a_ld,
                            size_t a_stride, cl_mem b, size_t b_offset, size_t b_ld,
                            size_t b_stride, T beta, cl_mem c, size_t c_offset, size_t c_ld,
                            size_t c_stride, size_t batches, cl_command_queue* queue,
                            cl_event* event);

struct Library {
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;
  GemmBatched<float> sgemm_batched = nullptr;
  GemmBatched<double> dgemm_batched = nullptr;
  bool complete = false;
};

const Library& library() {
  static const Library opened = [] {
    Library library;
    if (environment("OCL_CLBLAST") == "0") return library;
    void* handle = nullptr;
    for (const char* name : {"libclblast.so.1", "libclblast.so"}) {
      if (!handle) handle = open_library(name);
    }
    if (!handle) return library;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          library_symbol(handle, name));
      return function != nullptr;
    };
    library.complete = find(library.sgemm, "CLBlastSgemm") && find(library.dgemm, "CLBlastDgemm") &&
                       find(library.sgemm_batched, "CLBlastSgemmStridedBatched") &&
                       find(library.dgemm_batched, "CLBlastDgemmStridedBatched");
    return library;
  }();
  return opened;
}

// The names of CLBlast's own codes; it also returns OpenCL's.
const char* status_name(int status) {
  switch (status) {
    case -1024:
      return "CLBlastNotImplemented";
    case -1022:
      return "CLBlastInvalidMatrixA";
    case -1021:
      return "CLBlastInvalidMatrixB";
    case -1020:
      return "CLBlastInvalidMatrixC";
    case -1017:
      return "CLBlastInvalidDimension";
    case -1016:
      return "CLBlastInvalidLeadDimA";
    case -1015:
      return "CLBlastInvalidLeadDimB";
    case -1014:
      return "CLBlastInvalidLeadDimC";
    case -1011:
      return "CLBlastInsufficientMemoryA";
    case -1010:
      return "CLBlastInsufficientMemoryB";
    case -1009:
      return "CLBlastInsufficientMemoryC";
    case -2050:
      return "CLBlastInsufficientMemoryTemp";
    case -2049:
      return "CLBlastInvalidBatchCount";
    case -2048:
      return "CLBlastInvalidOverrideKernel";
    case -2047:
      return "CLBlastMissingOverrideParameter";
    case -2046:
      return "CLBlastInvalidLocalMemUsage";
    case -2045:
      return "CLBlastNoHalfPrecision";
    case -2044:
      return "CLBlastNoDoublePrecision";
    case -2041:
      return "CLBlastDatabaseError";
    case -2040:
      return "CLBlastUnknownError";
    case -2039:
      return "CLBlastUnexpectedError";
    default:
      return error_name(status);
  }
}

template <typename T>
int call(Gemm<T> single, GemmBatched<T> batched, const BlasProduct& p, cl_command_queue queue) {
  const auto offset = [](const BlasMatrix& matrix) { return matrix.view.offset / sizeof(T); };
  const auto transpose = [](const BlasMatrix& matrix) {
    return matrix.transposed ? kTransposed : kNotTransposed;
  };
  const T alpha = p.alpha.to<T>(), beta = p.beta.to<T>();
  if (p.batches == 1) {
    return single(kRowMajor, transpose(p.a), transpose(p.b), p.m, p.n, p.k, alpha,
                  p.a.view.buffer(), offset(p.a), p.a.ld, p.b.view.buffer(), offset(p.b), p.b.ld,
                  beta, p.out.view.buffer(), offset(p.out), p.out.ld, &queue, nullptr);
  }
  return batched(kRowMajor, transpose(p.a), transpose(p.b), p.m, p.n, p.k, alpha, p.a.view.buffer(),
                 offset(p.a), p.a.ld, p.a.batch_stride, p.b.view.buffer(), offset(p.b), p.b.ld,
                 p.b.batch_stride, beta, p.out.view.buffer(), offset(p.out), p.out.ld,
                 p.out.batch_stride, p.batches, &queue, nullptr);
}

std::string failure(const Stream& stream, const BlasProduct& p, int status) {
  return str("cannot multiply ", p.m, "x", p.k, " by ", p.k, "x", p.n, " (", p.batches,
             " matrices of ", p.type, ") on ", stream.device().label(), ": CLBlast failed with ",
             status_name(status), " (", status, ")");
}

// Devices on which CLBlast has failed for another reason than memory.
std::array<std::atomic<bool>, kMaxDevices> unusable{};

// Returns CLBlast's code. Where it failed, it has written nothing: its last kernel is the first
// that writes to the result.
int enqueue(Stream& stream, const BlasProduct& p) {
  static const std::string kSingle = "clblast_gemm", kBatched = "clblast_gemm_batched";
  struct Failed : std::exception {};
  int status = CL_SUCCESS;
  try {
    launch_library(stream, p.batches == 1 ? kSingle : kBatched, [&] {
      status = enqueue_with_memory(stream.device().index(), [&] {
        return stream.enqueue([&](cl_command_queue queue) {
          return p.type == ScalarType::Double
                     ? call(library().dgemm, library().dgemm_batched, p, queue)
                     : call(library().sgemm, library().sgemm_batched, p, queue);
        });
      });
      if (status != CL_SUCCESS) throw Failed{};
    });
  } catch (const Failed&) {  // the result was not launched
  }
  return status;
}

}  // namespace

bool clblast_has(ScalarType type) {
  return (type == ScalarType::Float || type == ScalarType::Double) && library().complete;
}

bool clblast_accepts(const BlasProduct& p) {
  const auto fits = [&](const BlasMatrix& matrix, int64_t rows, int64_t columns) {
    return matrix.ld >= (matrix.transposed ? rows : columns) &&
           matrix.view.offset % c10::elementSize(p.type) == 0;
  };
  return fits(p.a, p.m, p.k) && fits(p.b, p.k, p.n) && fits(p.out, p.m, p.n);
}

namespace {

// Returns CLBlast's code, after which nothing is written unless it is CL_SUCCESS.
int multiply(Stream& stream, const BlasProduct& p) {
  constexpr int64_t kLeast = 128;  // rows or columns that are halved
  const GridLimits& limits = stream.device().parameters().grid;
  const bool rows = p.m >= p.n;
  if (p.work() <= limits.work || (p.batches == 1 && std::max(p.m, p.n) < kLeast)) {
    const int status = enqueue(stream, p);
    if (status == CL_SUCCESS && limits.is_long(p.work())) stream.flush();
    return status;
  }
  BlasProduct first = p, rest = p;
  const auto skip = [&](BlasMatrix& matrix, int64_t elements) {
    matrix.view.offset += static_cast<size_t>(elements) * c10::elementSize(p.type);
  };
  if (p.batches > 1) {
    first.batches /= 2;
    rest.batches -= first.batches;
    for (BlasMatrix* each : {&rest.a, &rest.b, &rest.out}) {
      skip(*each, first.batches * each->batch_stride);
    }
  } else if (rows) {
    first.m = at::round_up(p.m / 2, kLeast / 2);
    rest.m -= first.m;
    skip(rest.a, first.m * (p.a.transposed ? 1 : p.a.ld));
    skip(rest.out, first.m * p.out.ld);
  } else {
    first.n = at::round_up(p.n / 2, kLeast / 2);
    rest.n -= first.n;
    skip(rest.b, first.n * (p.b.transposed ? p.b.ld : 1));
    skip(rest.out, first.n);
  }
  if (const int status = multiply(stream, first)) return status;
  const int status = multiply(stream, rest);
  TORCH_CHECK_WITH(OutOfMemoryError, !is_out_of_memory(status), failure(stream, rest, status));
  TORCH_CHECK(status == CL_SUCCESS, failure(stream, rest, status),
              ". OCL_CLBLAST=0 chooses the kernel of torch-ocl");
  return status;
}

}  // namespace

bool clblast_gemm(Stream& stream, const BlasProduct& p) {
  std::atomic<bool>& fails = unusable[stream.device().index()];
  if (fails.load(std::memory_order_relaxed)) return false;
  const int status = multiply(stream, p);
  if (status == CL_SUCCESS || is_out_of_memory(status)) return status == CL_SUCCESS;
  if (!fails.exchange(true)) {
    TORCH_WARN("ocl: ", failure(stream, p, status),
               ". From now on, torch-ocl's own kernels multiply there; OCL_CLBLAST=0 chooses them "
               "from the start");
  }
  return false;
}

}  // namespace ocl
