#include "backend/program/build_log.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string_view>
#include <vector>

#include "backend/base/error.h"

namespace ocl {
namespace {

// The name of each line of the text by its #line marks: "store.cl:3"; before the first mark,
// "<kernel>:1".
std::vector<std::string> marked_lines(const std::string& source) {
  constexpr std::string_view kMark = "#line ";
  std::vector<std::string> names;
  std::string file = "<kernel>";
  int64_t number = 1;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line); ++number) {
    names.push_back(str(file, ':', number));
    if (line.compare(0, kMark.size(), kMark) != 0) continue;
    std::istringstream mark(line.substr(kMark.size()));
    int64_t next = 0;
    if (!(mark >> next)) continue;
    number = next - 1;
    if (std::string name; mark >> std::quoted(name)) file = name;
  }
  return names;
}

}  // namespace

std::string with_marked_lines(const std::string& log, const std::string& source) {
  constexpr std::string_view kPlace = "<kernel>:";
  const std::vector<std::string> names = marked_lines(source);
  std::string text;
  size_t begin = 0;
  for (size_t at; (at = log.find(kPlace, begin)) != std::string::npos;) {
    const size_t digits = at + kPlace.size();
    const size_t end = std::min(log.find_first_not_of("0123456789", digits), log.size());
    const size_t line =
        end == digits || end - digits > 9 ? 0 : std::stoul(log.substr(digits, end - digits));
    text += log.substr(begin, at - begin);
    text += line == 0 || line > names.size() ? log.substr(at, end - at) : names[line - 1];
    begin = end;
  }
  return text + log.substr(begin);
}

}  // namespace ocl
