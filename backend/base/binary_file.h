// A file of the program cache: the key, a checksum and the program's binary.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ocl {

// The folder of the program cache: OCL_CACHE_DIR, or the user's cache folder. Empty when nothing is
// kept, because OCL_CACHE_DIR is "off" or the user has no home folder.
std::filesystem::path cache_folder();

// The host's instruction sets, and the processor that Intel's runtime is told to compile for, as a
// hash. Binaries and measurements of CPU devices depend on them, and drivers do not tell them:
// machines that share a folder may have processors of one name.
const std::string& host_target();

// <folder>/<sha1 of key>.bin; empty without a folder.
std::filesystem::path binary_path(const std::string& key);

// The binary; nullopt when the file is missing or damaged, has another key, or could have been
// written by another user (private_file.h).
std::optional<std::string> read_binary(const std::filesystem::path& path, const std::string& key);

// Replaces the file in one step; returns false when the folder cannot be written.
bool write_binary(const std::filesystem::path& path, const std::string& key,
                  const std::string& binary);

}  // namespace ocl
