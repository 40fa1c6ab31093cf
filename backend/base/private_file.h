// Files that only this user can have written. We run their content (programs) or trust it (measured
// choices), so a file that another user could have written is not read; one warning says so.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ocl {

// The home folder: HOME, or the folder in the system's list of users; empty where there is none.
std::filesystem::path home_folder();

// The content; nullopt where there is no file. Also nullopt where another user (but root) owns the
// file or its folder, or others can write to them, and for more than kLargestFile bytes.
constexpr size_t kLargestFile = size_t{1} << 30;
std::optional<std::string> read_private(const std::filesystem::path& path);

// Replaces the file in one step; creates its folder, accessible to this user only. Returns false on
// failure. Where others can write to the folder, one warning says how to choose another one, unless
// kSilent is given.
enum class Refusal { kWarns, kSilent };
bool write_private(const std::filesystem::path& path, std::string_view content,
                   Refusal refusal = Refusal::kWarns) noexcept;

}  // namespace ocl
