#include "backend/base/error.h"
#include "backend/base/failure_text.h"

#include "tests/cpp/support.h"

namespace ocl {
namespace {

using test::error_text;

TEST(Error, CodesHaveNames) {
  EXPECT_STREQ(error_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
  EXPECT_STREQ(error_name(CL_INVALID_KERNEL_ARGS), "CL_INVALID_KERNEL_ARGS");
  EXPECT_STREQ(error_name(-1001), "CL_PLATFORM_NOT_FOUND_KHR");
  EXPECT_STREQ(error_name(-9999), "unknown OpenCL error");
}

TEST(Error, HintsTellWhatToDo) {
  EXPECT_NE(std::string(error_hint(CL_OUT_OF_RESOURCES)).find("OCL_LAUNCH_BLOCKING=1"),
            std::string::npos);
  EXPECT_NE(std::string(error_hint(CL_MEM_OBJECT_ALLOCATION_FAILURE)).find("empty_cache"),
            std::string::npos);
  EXPECT_NE(std::string(error_hint(CL_INVALID_COMMAND_QUEUE)).find("OCL_LAUNCH_BLOCKING=1"),
            std::string::npos);
  EXPECT_NE(std::string(error_hint(CL_INVALID_VALUE)).find("torch_ocl.info"), std::string::npos);
  EXPECT_NE(std::string(error_hint(-9999)).find("torch_ocl.info"), std::string::npos);
}

TEST(Error, BytesAreReadable) {
  EXPECT_EQ(format_bytes(0), "0 bytes");
  EXPECT_EQ(format_bytes(1023), "1023 bytes");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(size_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(format_bytes(size_t{2048} << 40), "2048.00 TiB");
}

TEST(Error, TextNamesAllThatIsKnown) {
  const std::string text = error_text([] {
    raise(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "cannot copy 3.00 KiB on ocl:0", "clWait");
  });
  EXPECT_NE(text.find("cannot copy 3.00 KiB on ocl:0: clWait failed with "
                      "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST (-14). An earlier command"),
            std::string::npos)
      << text;
}

// opencl.hpp has names of its own for some functions.
TEST(Error, FunctionsHaveOpenCLsNames) {
  EXPECT_EQ(failure_text(CL_OUT_OF_RESOURCES, "clFlush"),
            "clFlush failed with CL_OUT_OF_RESOURCES (-5)");
  EXPECT_EQ(failure_text(CL_PROFILING_INFO_NOT_AVAILABLE, "clGetEventProfileInfo"),
            "clGetEventProfilingInfo failed with CL_PROFILING_INFO_NOT_AVAILABLE (-7)");
}

TEST(Error, OutOfMemoryHasTorchsClass) {
  EXPECT_THROW(raise(CL_MEM_OBJECT_ALLOCATION_FAILURE, "x", "y"), c10::OutOfMemoryError);
  EXPECT_TRUE(is_out_of_memory(CL_MEM_OBJECT_ALLOCATION_FAILURE));
  EXPECT_TRUE(is_out_of_memory(CL_OUT_OF_HOST_MEMORY));
  EXPECT_FALSE(is_out_of_memory(CL_INVALID_VALUE));
  try {
    raise(CL_INVALID_VALUE, "x", "y");
  } catch (const c10::OutOfMemoryError&) {
    FAIL();
  } catch (const c10::AcceleratorError& error) {
    EXPECT_EQ(error.get_error_code(), CL_INVALID_VALUE);
  }
}

TEST(Error, TranslatedAsksForTheTextOnlyOnFailure) {
  int asked = 0;
  const auto what = [&] { return str("attempt ", ++asked); };
  EXPECT_EQ(translated(what, [] { return 7; }), 7);
  EXPECT_EQ(asked, 0);
  const std::string text = error_text(
      [&] { translated(what, []() -> int { throw cl::Error(CL_INVALID_EVENT, "clWait"); }); });
  EXPECT_NE(text.find("attempt 1: clWait failed with CL_INVALID_EVENT (-58)"), std::string::npos);
}

}  // namespace
}  // namespace ocl
