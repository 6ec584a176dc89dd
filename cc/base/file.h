// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_BASE_FILE_H_
#define SERVECORE_CC_BASE_FILE_H_

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

namespace servecore {

// An open stdio file.
//
// Every error is a std::system_error (a std::runtime_error) that names the path
// and says what the system says. An operation on a closed file throws
// std::logic_error.
//
// Ownership: the object's. It moves and does not copy; one moved from is
//   closed.
// Lifetime: open from construction to Close or destruction.
// Copies: as stdio buffers.
// Thread safety: one thread at a time.
class File {
 public:
  // `mode` is that of std::fopen: "rb", "wb", ...
  File(std::string path, const std::string& mode);

  // Reads until `memory` is full or the file ends; gives the bytes read.
  std::size_t Read(std::span<std::byte> memory);

  // Writes all of `bytes`, as far as stdio's buffer. Only Close tells whether
  // they reached the file.
  void Write(std::span<const std::byte> bytes);

  // Flushes and closes. The file is closed afterwards even if this throws; on a
  // closed file it does nothing. The destructor closes too, but has no way to
  // report an error: a writer calls Close.
  void Close();

  bool is_open() const { return file_ != nullptr; }
  const std::string& path() const { return path_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const noexcept {
      // The result is lost on purpose: see Close.
      static_cast<void>(std::fclose(file));
    }
  };

  std::FILE* Handle() const;

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

}  // namespace servecore

#endif  // SERVECORE_CC_BASE_FILE_H_
