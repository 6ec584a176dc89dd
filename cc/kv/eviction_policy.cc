// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/kv/eviction_policy.h"

#include <array>
#include <stdexcept>
#include <utility>

#include "cc/base/errors.h"

namespace servecore::kv {
namespace {

constexpr std::array<std::pair<std::string_view, EvictionPolicy>, 5> kNames = {{
    {"lru", EvictionPolicy::kLru},
    {"lfu", EvictionPolicy::kLfu},
    {"slru", EvictionPolicy::kSlru},
    {"fifo", EvictionPolicy::kFifo},
    {"priority", EvictionPolicy::kPriority},
}};

[[noreturn]] void ThrowUnknown(int policy) {
  throw std::invalid_argument(StrCat("eviction policy is number ", policy,
                                     "; allowed are 0 to ",
                                     static_cast<int>(kNames.size()) - 1));
}

}  // namespace

EvictionPolicy EvictionPolicyFromName(std::string_view name) {
  for (const auto& [known, policy] : kNames) {
    if (name == known) return policy;
  }
  throw std::invalid_argument(
      StrCat("eviction policy is '", name,
             "'; allowed are 'lru', 'lfu', 'slru', 'fifo' and 'priority'"));
}

std::string_view EvictionPolicyName(EvictionPolicy policy) {
  for (const auto& [name, known] : kNames) {
    if (policy == known) return name;
  }
  ThrowUnknown(static_cast<int>(policy));
}

EvictionKey KeyOf(EvictionPolicy policy, const BlockUse& use,
                  std::uint64_t inserted) {
  switch (policy) {
    case EvictionPolicy::kLru:
      return {.rank = 0, .time = use.last_use};
    case EvictionPolicy::kLfu:
      return {.rank = static_cast<std::uint64_t>(use.hits),
              .time = use.last_use};
    case EvictionPolicy::kSlru:
      return {.rank = use.hits > 0 ? 1U : 0U, .time = use.last_use};
    case EvictionPolicy::kFifo:
      return {.rank = 0, .time = inserted};
    case EvictionPolicy::kPriority:
      // Adding 2^31 keeps the order and makes every rank positive.
      return {.rank = static_cast<std::uint64_t>(
                  std::int64_t{use.priority} -
                  std::numeric_limits<std::int32_t>::min()),
              .time = use.last_use};
  }
  ThrowUnknown(static_cast<int>(policy));
}

}  // namespace servecore::kv
