#include "tests/stern/stern.h"

#include <execinfo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace stern {

Stack Stack::here() {
  Stack stack;
  stack.depth = backtrace(stack.frames, kDepth);
  return stack;
}

void Stack::print() const { backtrace_symbols_fd(frames, depth, STDERR_FILENO); }

void say(const std::string& text) { std::fprintf(stderr, "stern: %s\n", text.c_str()); }

void abort_with(const std::string& text, const Stack* first, const char* first_title,
                const Stack* second, const char* second_title) {
  say(text);
  if (first) {
    say(first_title);
    first->print();
  }
  if (second) {
    say(second_title);
    second->print();
  }
  std::abort();
}

cl_int refuse(cl_int code, const std::string& text) {
  say("error " + std::to_string(code) + ": " + text);
  return code;
}

std::string environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

}  // namespace stern
