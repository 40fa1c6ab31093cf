#include "backend/program/user_program.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "backend/base/error.h"

namespace ocl {
namespace {

KernelArgument::Space space_of(cl_kernel_arg_address_qualifier qualifier) {
  switch (qualifier) {
    case CL_KERNEL_ARG_ADDRESS_GLOBAL:
      return KernelArgument::kGlobal;
    case CL_KERNEL_ARG_ADDRESS_CONSTANT:
      return KernelArgument::kConstant;
    case CL_KERNEL_ARG_ADDRESS_LOCAL:
      return KernelArgument::kLocal;
    default:
      return KernelArgument::kPrivate;
  }
}

// Removes the final zero, which some drivers count as part of the text.
std::string trimmed(std::string text) { return text.substr(0, text.find('\0')); }

KernelSignature signature_of(const cl::Kernel& kernel, const Device& device) {
  KernelSignature signature;
  signature.name = trimmed(kernel.getInfo<CL_KERNEL_FUNCTION_NAME>());
  const auto group = kernel.getWorkGroupInfo<CL_KERNEL_COMPILE_WORK_GROUP_SIZE>(device.handle());
  for (size_t i = 0; i < 3; ++i) signature.group_size[i] = group[i];
  for (cl_uint i = 0; i < kernel.getInfo<CL_KERNEL_NUM_ARGS>(); ++i) {
    signature.arguments.push_back(
        {trimmed(kernel.getArgInfo<CL_KERNEL_ARG_NAME>(i)),
         trimmed(kernel.getArgInfo<CL_KERNEL_ARG_TYPE_NAME>(i)),
         space_of(kernel.getArgInfo<CL_KERNEL_ARG_ADDRESS_QUALIFIER>(i)),
         (kernel.getArgInfo<CL_KERNEL_ARG_TYPE_QUALIFIER>(i) & CL_KERNEL_ARG_TYPE_CONST) != 0});
  }
  return signature;
}

// The position after the comment that begins at `at`; `at` if none begins there.
size_t skip_comment(const std::string& text, size_t at) {
  if (text.compare(at, 2, "//") == 0) return std::min(text.find('\n', at), text.size());
  if (text.compare(at, 2, "/*") != 0) return at;
  const size_t end = text.find("*/", at + 2);
  return end == std::string::npos ? text.size() : end + 2;
}

size_t skip_blanks(const std::string& text, size_t at) {
  for (;;) {
    const size_t before = at;
    while (at < text.size() && std::string_view(" \t\v\f\r").find(text[at]) != std::string::npos) {
      ++at;
    }
    at = skip_comment(text, at);
    if (at == before) return at;
  }
}

// The position after the string or character literal that begins at `at`. A literal ends with its
// line.
size_t skip_literal(const std::string& text, size_t at) {
  const char quote = text[at++];
  while (at < text.size() && text[at] != quote && text[at] != '\n') at += text[at] == '\\' ? 2 : 1;
  at = std::min(at, text.size());
  return at < text.size() && text[at] == quote ? at + 1 : at;
}

std::string joined_lines(std::string text) {
  for (const std::string_view end : {"\\\r\n", "\\\n"}) {
    for (size_t at; (at = text.find(end)) != std::string::npos;) text.erase(at, end.size());
  }
  return text;
}

bool is_include(const std::string& text, size_t at) {
  if (text.compare(at, 2, "%:") == 0) ++at;  // another spelling of '#'
  at = skip_blanks(text, std::min(at + 1, text.size()));
  for (const std::string_view name : {"include", "import", "embed"}) {
    if (text.compare(at, name.size(), name) == 0) return true;
  }
  return false;
}

}  // namespace

bool includes_files(const std::string& source) {
  const std::string text = joined_lines(source);
  for (size_t at = skip_blanks(text, 0); at < text.size();) {
    if ((text[at] == '#' || text.compare(at, 2, "%:") == 0) && is_include(text, at)) return true;
    while (at < text.size() && text[at] != '\n') {
      const size_t next = skip_comment(text, at);
      at = next != at                            ? next
           : text[at] == '"' || text[at] == '\'' ? skip_literal(text, at)
                                                 : at + 1;
    }
    at = skip_blanks(text, std::min(at + 1, text.size()));
  }
  return false;
}

std::string KernelArgument::text() const {
  constexpr std::array kSpaces{"", "__global ", "__constant ", "__local "};
  const bool constant = is_const && space == kGlobal;
  return str(kSpaces[space], constant ? "const " : "", type, " ", name);
}

std::vector<KernelSignature> signatures_of(const cl::Program& program, const Device& device) {
  return translated(
      [&] { return str("cannot ask ", device.label(), " for the arguments of kernels"); },
      [&] {
        std::vector<cl::Kernel> kernels;
        const_cast<cl::Program&>(program).createKernels(&kernels);
        std::vector<KernelSignature> signatures;
        for (const cl::Kernel& kernel : kernels) {
          signatures.push_back(signature_of(kernel, device));
        }
        return signatures;
      });
}

std::string put_signatures(const std::vector<KernelSignature>& kernels) {
  std::ostringstream out;
  out << kernels.size() << '\n';
  for (const KernelSignature& kernel : kernels) {
    out << kernel.name << '\n';
    for (const size_t size : kernel.group_size) out << size << '\n';
    out << kernel.arguments.size() << '\n';
    for (const KernelArgument& argument : kernel.arguments) {
      out << argument.name << '\n'
          << argument.type << '\n'
          << int{argument.space} << '\n'
          << argument.is_const << '\n';
    }
  }
  return std::move(out).str();
}

std::vector<KernelSignature> take_signatures(std::string& stored) {
  size_t at = 0;
  const auto text = [&] {
    const size_t end = stored.find('\n', at);
    TORCH_CHECK(end != std::string::npos, "the stored program has no signatures of kernels");
    const std::string line = stored.substr(at, end - at);
    at = end + 1;
    return line;
  };
  const auto number = [&](size_t below) {
    const std::string line = text();
    size_t value = 0;
    const auto parsed = std::from_chars(line.data(), line.data() + line.size(), value);
    TORCH_CHECK(parsed.ec == std::errc() && parsed.ptr == line.data() + line.size() &&
                    !line.empty() && value < below,
                "the stored program has no signatures of kernels");
    return value;
  };
  // A sanity check of counts: there cannot be more kernels or arguments than characters.
  std::vector<KernelSignature> kernels(number(stored.size()));
  for (KernelSignature& kernel : kernels) {
    kernel.name = text();
    for (size_t& size : kernel.group_size) size = number(SIZE_MAX);
    kernel.arguments.resize(number(stored.size()));
    for (KernelArgument& argument : kernel.arguments) {
      argument.name = text();
      argument.type = text();
      argument.space = static_cast<KernelArgument::Space>(number(KernelArgument::kLocal + 1));
      argument.is_const = number(2) != 0;
    }
  }
  stored.erase(0, at);
  return kernels;
}

}  // namespace ocl
