// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/file.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace servecore {
namespace {

static_assert(!std::is_copy_constructible_v<File>);
static_assert(!std::is_copy_assignable_v<File>);
static_assert(std::is_nothrow_move_constructible_v<File>);

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string ReadAll(File& file) {
  std::array<std::byte, 64> memory;
  const std::size_t got = file.Read(memory);
  return {reinterpret_cast<const char*>(memory.data()), got};
}

class FileTest : public testing::Test {
 protected:
  const std::string path =
      testing::TempDir() + "/file_test_" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

// Runs `action` and expects a std::system_error with this errno whose message
// names `path` and the system's words for the error.
template <class Action>
void ExpectError(int error, const std::string& path, Action action) {
  try {
    action();
    FAIL() << "nothing was thrown";
  } catch (const std::system_error& caught) {
    EXPECT_EQ(caught.code(), std::error_code(error, std::generic_category()));
    const std::string message = caught.what();
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_NE(message.find(std::strerror(error)), std::string::npos) << message;
  }
}

TEST_F(FileTest, ReadsWhatWasWritten) {
  File out(path, "wb");
  EXPECT_EQ(out.path(), path);
  out.Write(Bytes("abc"));
  out.Write(Bytes("def"));
  out.Close();
  File in(path, "rb");
  EXPECT_EQ(ReadAll(in), "abcdef");
  EXPECT_EQ(ReadAll(in), "");
}

TEST_F(FileTest, ReadStopsWhenTheMemoryIsFull) {
  File out(path, "wb");
  out.Write(Bytes("abcdef"));
  out.Close();
  File in(path, "rb");
  std::array<std::byte, 4> memory;
  EXPECT_EQ(in.Read(memory), 4U);
  EXPECT_EQ(in.Read(memory), 2U);
  EXPECT_EQ(in.Read(memory), 0U);
}

TEST_F(FileTest, DestructorCloses) {
  {
    File(path, "wb").Write(Bytes("kept"));
  }
  File in(path, "rb");
  EXPECT_EQ(ReadAll(in), "kept");
}

// More files than a process may have open, so that a leak cannot pass.
TEST_F(FileTest, DestructorLeavesNoDescriptorOpen) {
  for (int i = 0; i < 5000; ++i) File(path, "wb");
  for (int i = 0; i < 5000; ++i) File(path, "wb").Close();
}

TEST_F(FileTest, MissingFileIsAnErrorWithPathAndReason) {
  ExpectError(ENOENT, path, [this] { File(path, "rb"); });
}

TEST_F(FileTest, ReadErrorIsReported) {
  File directory(testing::TempDir(), "rb");
  ExpectError(EISDIR, testing::TempDir(), [&directory] { ReadAll(directory); });
}

TEST_F(FileTest, WriteErrorIsReported) {
  File out(path, "wb");
  out.Write(Bytes("x"));
  out.Close();
  File in(path, "rb");
  ExpectError(EBADF, path, [&in] { in.Write(Bytes("x")); });
}

TEST_F(FileTest, CloseReportsBytesThatDidNotReachTheFile) {
  File full("/dev/full", "wb");
  full.Write(Bytes("stays in the buffer until Close"));
  ExpectError(ENOSPC, "/dev/full", [&full] { full.Close(); });
  EXPECT_FALSE(full.is_open());
}

TEST_F(FileTest, DestructorOfAFileThatCannotBeFlushedDoesNotThrow) {
  File full("/dev/full", "wb");
  full.Write(Bytes("lost"));
}

TEST_F(FileTest, ClosedFileRefusesUse) {
  File file(path, "wb");
  file.Close();
  EXPECT_FALSE(file.is_open());
  file.Close();
  EXPECT_THROW(file.Write(Bytes("x")), std::logic_error);
  EXPECT_THROW(ReadAll(file), std::logic_error);
}

TEST_F(FileTest, MoveLeavesTheSourceClosed) {
  File source(path, "wb");
  File target(std::move(source));
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_FALSE(source.is_open());
  EXPECT_TRUE(target.is_open());
  target.Write(Bytes("moved"));
  target = File(path + "2", "wb");
  File in(path, "rb");
  EXPECT_EQ(ReadAll(in), "moved");
}

}  // namespace
}  // namespace servecore
