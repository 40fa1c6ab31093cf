#include "backend/program/program_cache.h"
#include "backend/program/build_log.h"

#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include "backend/program/user_program.h"
#include "tests/cpp/failing_calls.h"
#include "tests/cpp/support.h"

namespace ocl {
namespace {

constexpr const char* kKernel = R"(#include "value.clh"
__kernel void store(__global char *out, const ulong offset) {
  *(__global int *)(out + offset) = VALUE + SERIAL;
}
)";

// Each test has sources of its own (SERIAL), since programs stay in the memory of the process.
struct ProgramCacheTest : test::DeviceTest {
  void SetUp() override {
    DeviceTest::SetUp();
    write("#define VALUE 1000");
  }
  void write(const std::string& header) {
    sources.write("store.cl", kKernel);
    sources.write("value.clh", header + "\n");
  }

  // Runs the kernel with these defines and returns its result; then the program is in the cache on
  // disk.
  int run(int64_t serial) {
    const Program& built = program(here(), "store.cl", Defines().set("SERIAL", serial));
    Kernel kernel{clCreateKernel(built.handle(), "store", nullptr), &built, "store"};
    const c10::DataPtr memory = Allocator::instance().allocate(sizeof(int));
    Stream& stream = current_stream(GetParam());
    launch(stream, kernel, {1}, {1}, resolve(memory.get()));
    stream.finish();
    const int value = test::read_int(stream, resolve(memory.get()));
    clReleaseKernel(kernel.handle);
    return value;
  }
  std::vector<std::filesystem::path> files() {
    std::vector<std::filesystem::path> found;
    for (const auto& each : std::filesystem::directory_iterator(cache.path())) {
      found.push_back(each.path());
    }
    return found;
  }
  // Returns a number that no other test, on no other device, uses.
  static int64_t serial() {
    static int64_t last = 0;
    return ++last;
  }

  test::TemporaryFolder sources, cache;
  test::Variable kernel_dir{"OCL_KERNEL_DIR", sources.path().string()};
  test::Variable cache_dir{"OCL_CACHE_DIR", cache.path().string()};
};

TEST_P(ProgramCacheTest, BuildsOncePerSpecialisation) {
  const int64_t a = serial(), b = serial();
  const auto before = program_cache_stats();
  EXPECT_EQ(run(a), 1000 + a);
  EXPECT_EQ(run(a), 1000 + a);
  EXPECT_EQ(program_cache_stats().built, before.built + 1);
  EXPECT_EQ(run(b), 1000 + b);
  EXPECT_EQ(program_cache_stats().built, before.built + 2);
  EXPECT_EQ(program_cache_stats().loaded, before.loaded);
  EXPECT_EQ(files().size(), 2u);
}

TEST_P(ProgramCacheTest, TwoProgramsAreBuiltAtTheSameTime) {
  std::latch both(2);
  std::atomic<int> met{0};
  test::on_build([&] {
    both.count_down();
    for (int i = 0; i < 20'000 && !both.try_wait(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    met += both.try_wait();
  });
  const int64_t a = serial(), b = serial();
  std::thread first([&] { program(here(), "store.cl", Defines().set("SERIAL", a)); });
  std::thread second([&] { program(here(), "store.cl", Defines().set("SERIAL", b)); });
  first.join();
  second.join();
  test::on_build({});
  EXPECT_EQ(met, 2);
}

TEST_P(ProgramCacheTest, ThreadsThatWantOneProgramBuildItOnce) {
  std::atomic<int> builds{0};
  test::on_build([&] { ++builds; });
  program(here(), "store.cl", Defines().set("SERIAL", serial()));
  const int of_one = builds.exchange(0);  // 2 with Quirk::kKeepsCompiler
  const int64_t number = serial();
  std::vector<std::thread> threads;
  std::array<const Program*, 8> found{};
  for (const Program*& each : found) {
    threads.emplace_back(
        [&] { each = &program(here(), "store.cl", Defines().set("SERIAL", number)); });
  }
  for (std::thread& thread : threads) thread.join();
  test::on_build({});
  EXPECT_EQ(builds, of_one);
  for (const Program* each : found) EXPECT_EQ(each, found[0]);
}

TEST_P(ProgramCacheTest, ChangedIncludeIsBuiltAgain) {
  const int64_t number = serial();
  EXPECT_EQ(run(number), 1000 + number);
  write("#define VALUE 2000");
  EXPECT_EQ(run(number), 2000 + number);
}

TEST_P(ProgramCacheTest, MissingKernelFolderNamesTheFile) {
  test::Variable missing{"OCL_KERNEL_DIR", (sources.path() / "missing").string()};
  try {
    run(serial());
    FAIL() << "the kernel file was found";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("cannot read the kernel file"), std::string::npos);
  }
}

TEST_P(ProgramCacheTest, DefinesKeepTheirOrder) {
  const Defines defines = Defines().set("B", 1).append(Defines().set("A", "x + 1"));
  EXPECT_EQ(defines.text(), "#define B 1\n#define A x + 1\n");
}

TEST_P(ProgramCacheTest, LinesPointAtTheRealFiles) {
  EXPECT_EQ(kernel_source("store.cl")
                .find("#line 1 \"store.cl\"\n#line 1 \"value.clh\"\n#define VALUE 1000\n"
                      "#line 2 \"store.cl\"\n__kernel void store("),
            0u);
}

TEST_P(ProgramCacheTest, OptionsAndSourceAreApartInTheKey) {
  const std::string kernel = str("__kernel void f", serial(), "(__global int *out) {}");
  const auto build = [&](const std::string& options, const std::string& source) {
    return user_program(here(), source, options).program;
  };
  const Program* first = build("-DA", "// -w\n" + kernel);  // " -w" is added to the options
  const Program* second = nullptr;
  try {
    second = build("-DA -w\n//", kernel);
  } catch (const c10::Error&) {  // a driver that does not take such options
  }
  EXPECT_NE(first, second);
}

TEST_P(ProgramCacheTest, BuildFailureTellsAll) {
  write("#define VALUE (1 + no_such_name)");
  const std::string text =
      test::error_text([&] { program(here(), "store.cl", Defines().set("SERIAL", 77)); });
  const std::string failure = here().has(Quirk::kBinaryCompiles)
                                  ? "clCompileProgram failed with CL_COMPILE_PROGRAM_FAILURE (-15)"
                                  : "clBuildProgram failed with CL_BUILD_PROGRAM_FAILURE (-11)";
  for (const std::string& part :
       {std::string("cannot build store.cl for ") + here().label(), std::string("[SERIAL 77]"),
        failure, std::string("no_such_name"), std::string("store.cl:3")}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_THROW(program(here(), "store.cl", Defines().set("SERIAL", 77)), c10::Error) << "again";
}

TEST_P(ProgramCacheTest, LinksThatAnotherProcessMakesFailAreRepeated) {
  if (!here().has(Quirk::kBinaryCompiles)) GTEST_SKIP() << "programs are not linked";
  const auto before = program_cache_stats();
  const int64_t number = serial();
  test::fail_links(3);
  EXPECT_EQ(run(number), 1000 + number);
  EXPECT_EQ(program_cache_stats().built, before.built + 1);
  test::fail_links(1000);
  const std::string text =
      test::error_text([&] { program(here(), "store.cl", Defines().set("SERIAL", serial())); });
  test::fail_links(0);
  EXPECT_NE(text.find("clLinkProgram failed with CL_LINK_PROGRAM_FAILURE (-17)"), std::string::npos)
      << text;
}

TEST_P(ProgramCacheTest, UnknownFileAndKernelAreNamed) {
  EXPECT_NE(test::error_text([&] { program(here(), "nothing.cl", {}); }).find("nothing.cl"),
            std::string::npos);
  struct Unknown {
    int serial;

    KernelSource source(Device&) const {
      return {"store.cl", "stohr", Defines().set("SERIAL", serial)};
    }
  };
  const std::string text = test::error_text([&] { find_kernel(here(), Unknown{78}); });
  EXPECT_NE(text.find("cannot create the kernel stohr of store.cl [SERIAL 78]"), std::string::npos)
      << text;
  EXPECT_NE(text.find("CL_INVALID_KERNEL_NAME"), std::string::npos) << text;
}

TEST(BuildLog, LinesOfTheWholeTextGetTheNamesOfTheirFiles) {
  const std::string source =
      "#define A 1\n#line 1 \"a.cl\"\nfirst\n#line 1 \"b.clh\"\nof b\n#line 3 \"a.cl\"\nthird\n";
  EXPECT_EQ(with_marked_lines("<kernel>:3:7: error: x\n<kernel>:5:1: note\n<kernel>:7: y", source),
            "a.cl:1:7: error: x\nb.clh:1:1: note\na.cl:3: y");
  EXPECT_EQ(with_marked_lines("<kernel>:1:2 <kernel>:99 <kernel>: <kernel>:99999999999", source),
            "<kernel>:1:2 <kernel>:99 <kernel>: <kernel>:99999999999");
  EXPECT_EQ(with_marked_lines("store.cl:3: error", source), "store.cl:3: error");
  // Marks of users need no name, and may be no marks.
  const std::string marks = "#line 10\nx\n#line 3 \"\"\ny\n#line 7 \"my file.cl\"\nz\n#line x\n";
  EXPECT_EQ(with_marked_lines("<kernel>:2 <kernel>:4 <kernel>:6 <kernel>:7", marks),
            "<kernel>:10 :3 my file.cl:7 my file.cl:8");
}

TEST(BuildProgress, TellsAfterTwoSecondsAndEachDoubling) {
  const test::Variable folder("OCL_CACHE_DIR", "/kept/here");
  BuildProgress progress;
  EXPECT_EQ(progress.add(1.5), "");
  EXPECT_EQ(progress.add(0.75),
            "torch_ocl: compiled 2 programs in 2 s, which are kept in /kept/here\n");
  EXPECT_EQ(progress.add(1.0), "");
  EXPECT_NE(progress.add(20.0).find("compiled 4 programs in 23 s"), std::string::npos);
  EXPECT_EQ(progress.add(1.0), "");
}

TEST(SlowNotice, TellsWhileSomethingTakesLong) {
  std::promise<void> told;
  {
    const SlowNotice notice(std::chrono::milliseconds(0), [&] { told.set_value(); });
    told.get_future().wait();
  }
  bool too_early = false;
  {
    const SlowNotice notice(std::chrono::hours(1), [&] { too_early = true; });
  }
  EXPECT_FALSE(too_early);
}

TEST(UserProgram, StoredSignaturesAreCheckedWhenTheyAreTaken) {
  const KernelArgument argument{"x", "float*", KernelArgument::kGlobal, true};
  const std::string text = put_signatures({{"scale", {8, 1, 1}, {argument}}});
  std::string stored = text + "binary";
  const auto kernels = take_signatures(stored);
  EXPECT_EQ(stored, "binary");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].group_size[0], 8u);
  EXPECT_EQ(kernels[0].arguments.at(0).text(), "__global const float* x");
  for (std::string wrong :
       {std::string(),
        std::string("\x7f"
                    "ELF\n"),
        std::string("99999999999999999999\n"), std::string("1000000\n"),
        text.substr(0, text.size() - 3), std::string("1\nk\n0\n0\n0\n1\nx\nint\n4\n0\n")}) {
    EXPECT_THROW(take_signatures(wrong), c10::Error) << wrong;
  }
}

OCL_ON_EVERY_DEVICE(ProgramCacheTest);

}  // namespace
}  // namespace ocl
