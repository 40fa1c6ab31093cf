// Functions of the operating system, for Linux with glibc.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace ocl {

// The shared library, or nullptr where the system finds none of that name.
void* open_library(const char* name) noexcept;
void* library_symbol(void* library, const char* name) noexcept;

// Names of the OpenCL loader library, the best first, ended by nullptr.
const char* const* opencl_library_names() noexcept;

// The file that this code is in: the extension, or a program.
std::filesystem::path own_file();

// Whether anybody other than root, this user and the owner of own_file() could have written the
// file or put it into its folder. Members of the file's group count as this user: many systems
// create files that the user's own group can write.
bool others_could_write(const std::filesystem::path& file);

// Opens a file of this user whose bytes serve as locks between processes; -1 on failure. The locks
// belong to the process: closing the file releases all of them, and a forked child has none.
int open_lock_file(const std::filesystem::path& path) noexcept;
// Returns false if another process keeps the lock for longer than `patience`, or the file system
// has no locks.
bool lock_byte(int file, int64_t position, std::chrono::milliseconds patience) noexcept;
void unlock_byte(int file, int64_t position) noexcept;

// Sets an action that each forked child runs.
void after_fork(void (*action)());

int process_id() noexcept;
int64_t thread_id() noexcept;

// Reserve addresses without memory, and zeroed memory whose pages are allocated at their first use.
// Both stay until the process ends. nullptr where the system refuses.
void* reserve_addresses(size_t size) noexcept;
void* reserve_zeros(size_t size) noexcept;

// Bytes of the host's memory that programs can still use; nullopt where the system does not report
// it.
std::optional<size_t> available_host_memory() noexcept;

// What the host's processors can execute, as the system names it; empty where it is not known.
std::string host_instruction_sets();

// Whether the standard error is a terminal.
bool errors_are_read_at_a_terminal() noexcept;

// If `condition()` is true when the process exits, the handlers and static destructors that were
// registered before this call do not run. Output is flushed.
void skip_destructors_if(bool (*condition)());

// Asks for pages of 2 MiB within the range, where the system leaves the choice to programs. A hint.
void prefer_huge_pages(void* start, size_t size) noexcept;

}  // namespace ocl
