// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CC_BASE_ERRORS_H_
#define SERVECORE_CC_BASE_ERRORS_H_

#include <sstream>
#include <string>

namespace servecore {

// One string of all parts, each as an ostream writes it. For the messages of
// errors, which say the value found, the values allowed and what to do.
template <class... Parts>
std::string StrCat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

}  // namespace servecore

#endif  // SERVECORE_CC_BASE_ERRORS_H_
