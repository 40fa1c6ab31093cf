// Files that only this user can have written: their content is run (programs) or trusted (measured
// choices), so what another user could have put there is left alone, with one warning.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace ocl {

// The home folder: HOME, or what the system's list of users says; empty where there is none.
std::filesystem::path home_folder();

// The content; nothing where there is no file, or it or its folder belongs to another user (other
// than root) or can be written by others.
std::optional<std::string> read_private(const std::filesystem::path& path);

// Replaces the file in one step, and makes the folder for this user alone; false where it cannot.
bool write_private(const std::filesystem::path& path, std::string_view content) noexcept;

}  // namespace ocl
