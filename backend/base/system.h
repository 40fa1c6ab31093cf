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

// Whether users could have written the file, or put it into its folder, who are neither root, nor
// this user, nor the owner of own_file(). Members of the file's group count as the user: many
// systems create files that the user's own group can write.
bool others_could_write(const std::filesystem::path& file);

// A file of this user whose bytes are locks between processes; -1 where there can be none. The
// locks belong to the process: closing the file lets go of all of them, a forked child has none.
int open_lock_file(const std::filesystem::path& path) noexcept;
// False if another process has the lock for so long, or the file system has no locks.
bool lock_byte(int file, int64_t position, std::chrono::milliseconds patience) noexcept;
void unlock_byte(int file, int64_t position) noexcept;

// Sets an action that each forked child runs.
void after_fork(void (*action)());

int process_id() noexcept;
int64_t thread_id() noexcept;

// Addresses without memory, and zeroed memory that takes room only where it is used. Both stay
// until the process ends. nullptr where the system refuses.
void* reserve_addresses(size_t size) noexcept;
void* reserve_zeros(size_t size) noexcept;

// Bytes of the host's memory that programs can still use, where the system tells it.
std::optional<size_t> available_host_memory() noexcept;

// What the host's processors can execute, as the system names it; empty where it is not known.
std::string host_instruction_sets();

// Whether a person sees what is printed on the standard error.
bool errors_are_read_at_a_terminal() noexcept;

// When the process exits and `condition()` is true then, it ends without the handlers and static
// destructors that were registered before this call. Output is flushed.
void skip_destructors_if(bool (*condition)());

// Asks for pages of 2 MiB within the range, where the system leaves the choice to programs. A hint.
void prefer_huge_pages(void* start, size_t size) noexcept;

}  // namespace ocl
