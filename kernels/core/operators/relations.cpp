#include "kernels/core/operators/relations.h"

#include <c10/util/safe_numerics.h>

namespace ocl {
namespace {

at::DimVector numbers_of(std::initializer_list<Length> lengths) {
  at::DimVector numbers;
  for (const Length& length : lengths) numbers.push_back(length.number);
  return numbers;
}

}  // namespace

int64_t checked_product(const char* what, at::IntArrayRef numbers) {
  int64_t product = 1;
  for (const int64_t number : numbers) {
    TORCH_CHECK(number >= 0 && !c10::mul_overflows(product, number, &product), what, ": ", numbers,
                " must not be negative, and their product must be below 2^63");
  }
  return product;
}

int64_t Relations::product(std::initializer_list<Length> factors) const {
  return checked_product(op_, numbers_of(factors));
}

void Relations::refuse(const char* a_name, at::IntArrayRef a, const char* b_name, at::IntArrayRef b,
                       size_t free) const {
  if (free == 0) {
    TORCH_CHECK(false, op_, ": ", a_name, " has sizes ", a, ", but must have those of ", b_name,
                ": ", b);
  }
  TORCH_CHECK(false, op_, ": ", a_name, " has sizes ", a, ", but must have those of ", b_name, ": ",
              b, ", except for the last ", free, " dimensions");
}

void Relations::refuse(const char* name, at::IntArrayRef sizes,
                       std::initializer_list<Length> expected, const char* relation) const {
  TORCH_CHECK(false, op_, ": ", name, " has sizes ", sizes, ", but must have ", relation, " ",
              at::IntArrayRef(numbers_of(expected)));
}

void Relations::refuse_divisor(const char* name, int64_t divisor, int64_t number) const {
  TORCH_CHECK(false, op_, ": ", name, " is ", divisor, ", but must divide ", number);
}

}  // namespace ocl
