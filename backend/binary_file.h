// A file of the program cache: the key and a checksum in front of the program's binary.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace ocl {

// The folder of the program cache: OCL_CACHE_DIR, or the user's cache folder. Empty: nothing is
// kept, since OCL_CACHE_DIR is "off" or the user has no home.
std::filesystem::path cache_folder();

// <folder>/<sha1 of key>.bin, or empty.
std::filesystem::path binary_path(const std::string& key);

// The binary, or nothing when the file is missing, damaged, of another key, or perhaps of another
// user (private_file.h).
std::optional<std::string> read_binary(const std::filesystem::path& path, const std::string& key);

// Replaces the file in one step; returns false when the folder cannot be written.
bool write_binary(const std::filesystem::path& path, const std::string& key,
                  const std::string& binary);

}  // namespace ocl
