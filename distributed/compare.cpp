// Compares the arguments of all ranks before an all-to-all.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>

#include "distributed/backend.h"

namespace ocl {

void compare_exchange(c10d::Backend& gloo, const std::vector<int64_t>& sent,
                      const std::vector<int64_t>& received, at::ScalarType type) {
  const int64_t ranks = gloo.getSize(), columns = 2 * ranks + 1;
  // All ranks send rows of the same length, even if a caller gave too few sizes. -1 marks a missing
  // size.
  at::Tensor mine = at::full({columns}, -1, at::kLong);
  int64_t* row = mine.mutable_data_ptr<int64_t>();
  if (static_cast<int64_t>(sent.size()) == ranks) std::copy(sent.begin(), sent.end(), row);
  if (static_cast<int64_t>(received.size()) == ranks) {
    std::copy(received.begin(), received.end(), row + ranks);
  }
  row[2 * ranks] = static_cast<int64_t>(type);
  at::Tensor rows = at::empty({ranks * columns}, at::kLong);
  gloo._allgather_base(rows, mine)->wait();

  for (int64_t from = 0; from < ranks; ++from) {
    for (int64_t to = 0; to < ranks; ++to) {
      const int64_t* const sender = rows.const_data_ptr<int64_t>() + from * columns;
      const int64_t* const receiver = rows.const_data_ptr<int64_t>() + to * columns;
      const int64_t sends = sender[to], expects = receiver[ranks + from];
      const auto type_sent = static_cast<at::ScalarType>(sender[2 * ranks]);
      const auto type_expected = static_cast<at::ScalarType>(receiver[2 * ranks]);
      TORCH_CHECK(sends >= 0 && sends == expects && (sends == 0 || type_sent == type_expected),
                  "Detected mismatch between collectives on ranks: in an all_to_all, rank ", from,
                  " sends ", sends, " bytes of ", type_sent, " to rank ", to, ", which expects ",
                  expects, " bytes of ", type_expected,
                  std::min(sends, expects) < 0 ? " (-1: a wrong number of parts)" : "");
    }
  }
}

}  // namespace ocl
