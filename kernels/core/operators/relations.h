// Checks of relations between the sizes of an operator's arguments, which its kernels rely on.
// Generated wrappers check them before anything else; kernels/codegen/relations.py has the table.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <initializer_list>

namespace ocl {

// A size, as an integer or as a SymInt, depending on the schema.
struct Length {
  Length(int64_t number) : number(number) {}
  Length(const c10::SymInt& number) : number(number.guard_int(__FILE__, __LINE__)) {}
  int64_t number;
};

// The product of untrusted numbers. Raises an error that names `what` if a number is negative or
// the product overflows.
int64_t checked_product(const char* what, at::IntArrayRef numbers);

// The product of all sizes except the last `trailing` ones.
inline int64_t leading(const at::Tensor& tensor, size_t trailing) {
  const size_t dims = tensor.sizes().size();
  return c10::multiply_integers(tensor.sizes().slice(0, dims - std::min(dims, trailing)));
}

// Checks of the arguments of one operator. Each raises RuntimeError. Where an optional tensor is
// absent, there is nothing to check.
class Relations {
 public:
  explicit Relations(const char* op) : op_(op) {}

  // `a` and `b` have the same number of dimensions and equal sizes, except in the last `free`
  // dimensions.
  template <typename A, typename B>
  void same(const char* a_name, const A& a, const char* b_name, const B& b, size_t free = 0) const {
    const at::Tensor *left = given(a_name, a), *right = given(b_name, b);
    if (!left || !right) return;
    const at::IntArrayRef l = left->sizes(), r = right->sizes();
    const bool equal = l.size() == r.size() && l.size() >= free &&
                       std::equal(l.begin(), l.end() - free, r.begin());
    if (C10_UNLIKELY(!equal)) refuse(a_name, l, b_name, r, free);
  }

  template <typename A>
  void sizes(const char* name, const A& a, std::initializer_list<Length> expected) const {
    const at::Tensor* tensor = given(name, a);
    if (!tensor) return;
    const auto same = [](const Length& length, int64_t size) { return length.number == size; };
    const at::IntArrayRef sizes = tensor->sizes();
    const bool equal =
        std::equal(expected.begin(), expected.end(), sizes.begin(), sizes.end(), same);
    if (C10_UNLIKELY(!equal)) refuse(name, sizes, expected, "sizes");
  }

  // `a` has as many elements as the product of the factors.
  template <typename A>
  void count(const char* name, const A& a, std::initializer_list<Length> factors) const {
    const at::Tensor* tensor = given(name, a);
    if (!tensor) return;
    if (C10_UNLIKELY(tensor->numel() != product(factors))) {
      refuse(name, tensor->sizes(), factors, "as many numbers as the product of");
    }
  }

  // A list has `expected` numbers.
  void length(const char* name, size_t length, size_t expected) const {
    TORCH_CHECK(length == expected, op_, ": ", name, " has ", length, " numbers, but must have ",
                expected);
  }

  // `divisor` is positive and divides `number`.
  void divides(const char* name, Length divisor, Length number) const {
    if (C10_UNLIKELY(divisor.number <= 0 || number.number % divisor.number != 0)) {
      refuse_divisor(name, divisor.number, number.number);
    }
  }

 private:
  const at::Tensor* given(const char* name, const at::Tensor& tensor) const {
    TORCH_CHECK(tensor.defined(), op_, ": ", name, " is missing");
    return &tensor;
  }
  const at::Tensor* given(const char* /*name*/, const std::optional<at::Tensor>& tensor) const {
    return tensor && tensor->defined() ? &*tensor : nullptr;
  }
  int64_t product(std::initializer_list<Length> factors) const;
  [[noreturn]] void refuse(const char* a_name, at::IntArrayRef a, const char* b_name,
                           at::IntArrayRef b, size_t free) const;
  [[noreturn]] void refuse(const char* name, at::IntArrayRef sizes,
                           std::initializer_list<Length> expected, const char* relation) const;
  [[noreturn]] void refuse_divisor(const char* name, int64_t divisor, int64_t number) const;

  const char* op_;
};

}  // namespace ocl
