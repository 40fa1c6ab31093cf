// A file of the program cache: the key, a checksum and the program's binary.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ocl {

// The folder of the program cache: OCL_CACHE_DIR, or the user's cache folder. Empty when the cache
// is off, because OCL_CACHE_DIR is "off" or the user has no home folder.
std::filesystem::path cache_folder();

// A hash of the host's instruction sets and of the processor that Intel's runtime is told to
// compile for. Binaries and measurements of CPU devices depend on both, and drivers report neither:
// two machines that share a cache folder may give different processors the same name.
const std::string& host_target();

// The path <folder>/<sha1 of key>.bin; empty when the cache is off.
std::filesystem::path binary_path(const std::string& key);

// The binary; nullopt when the file is missing or damaged, has another key, or could have been
// written by another user (private_file.h).
std::optional<std::string> read_binary(const std::filesystem::path& path, const std::string& key);

// Replaces the file in one step; returns false when the folder cannot be written.
bool write_binary(const std::filesystem::path& path, const std::string& key,
                  const std::string& binary);

}  // namespace ocl
