// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/base/file.h"

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cc/base/errors.h"

namespace servecore {
namespace {

[[noreturn]] void ThrowErrno(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

File::File(std::string path, const std::string& mode)
    : path_(std::move(path)), file_(std::fopen(path_.c_str(), mode.c_str())) {
  if (file_ == nullptr) {
    ThrowErrno(errno, StrCat("cannot open '", path_, "' in mode '", mode, "'"));
  }
}

std::FILE* File::Handle() const {
  if (file_ == nullptr) {
    throw std::logic_error(
        StrCat("file '", path_, "' is closed; open it again to use it"));
  }
  return file_.get();
}

std::size_t File::Read(std::span<std::byte> memory) {
  std::FILE* file = Handle();
  const std::size_t got = std::fread(memory.data(), 1, memory.size(), file);
  if (got < memory.size() && std::ferror(file) != 0) {
    const int error = errno;
    std::clearerr(file);
    ThrowErrno(error, StrCat("cannot read '", path_, "'"));
  }
  return got;
}

void File::Write(std::span<const std::byte> bytes) {
  std::FILE* file = Handle();
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) < bytes.size()) {
    const int error = errno;
    std::clearerr(file);
    ThrowErrno(error, StrCat("cannot write '", path_, "'"));
  }
}

void File::Close() {
  if (file_ == nullptr) return;
  if (std::fclose(file_.release()) != 0) {
    ThrowErrno(errno, StrCat("cannot close '", path_,
                             "'; what was written last may be lost"));
  }
}

}  // namespace servecore
