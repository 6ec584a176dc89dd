// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/testing/block.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda/testing/fiber.h"
#include "cuda/testing/launch_error.h"
#include "cuda/testing/order.h"
#include "cuda/testing/shared_memory.h"
#include "cuda/testing/thread.h"
#include "cuda/testing/vector_types.h"

namespace servecore::cuda::testing {
namespace {

constexpr std::uint32_t kWarp = 32;

thread_local Block* current_block = nullptr;

std::string ToString(const uint3& index) {
  return "(" + std::to_string(index.x) + "," + std::to_string(index.y) + "," +
         std::to_string(index.z) + ")";
}

std::string ToString(const Location& where) {
  const std::string_view path = where.file_name();
  return std::string(path.substr(path.rfind('/') + 1)) + ":" +
         std::to_string(where.line());
}

std::string Hex(std::uint32_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) {
    text += kDigits[(value >> static_cast<unsigned>(shift)) & 0xfU];
  }
  return text;
}

const char* ToString(WarpOp op) {
  switch (op) {
    case WarpOp::kSyncWarp:
      return "__syncwarp";
    case WarpOp::kShuffle:
      return "__shfl_sync";
    case WarpOp::kShuffleXor:
      return "__shfl_xor_sync";
    case WarpOp::kShuffleDown:
      return "__shfl_down_sync";
    case WarpOp::kShuffleUp:
      return "__shfl_up_sync";
    case WarpOp::kVote:
      return "a vote";
  }
  return "?";
}

bool HasLane(std::uint32_t mask, std::uint32_t lane) {
  return ((mask >> lane) & 1U) != 0;
}

// The lane whose value a shuffle gives to `lane`, by the tables of CUDA's
// programming guide: one beyond the segment leaves a lane its own value.
std::uint32_t SourceLane(const WarpArguments& arguments, std::uint32_t lane) {
  const std::uint32_t first = lane & ~(arguments.width - 1);
  const std::uint32_t last = first + arguments.width - 1;
  const std::uint32_t operand = arguments.operand;
  switch (arguments.op) {
    case WarpOp::kShuffle:
      return first + (operand & (arguments.width - 1));
    case WarpOp::kShuffleXor:
      return (lane ^ operand) > last ? lane : lane ^ operand;
    case WarpOp::kShuffleDown:
      return operand > last - lane ? lane : lane + operand;
    case WarpOp::kShuffleUp:
      return operand > lane - first ? lane : lane - operand;
    case WarpOp::kSyncWarp:
    case WarpOp::kVote:
      break;
  }
  return lane;
}

bool IsSame(const Location& a, const Location& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::strcmp(a.file_name(), b.file_name()) == 0;
}

}  // namespace

Block::Block(const Grid& grid, const uint3& index, std::size_t ordinal)
    : grid_(grid),
      index_(index),
      ordinal_(ordinal),
      count_(std::size_t{grid.block.x} * grid.block.y * grid.block.z),
      threads_(std::make_unique<Thread[]>(count_)),
      contexts_(std::make_unique<Context*[]>(count_)) {
  if (grid.shared_bytes > 0) dynamic_ = SharedMemory(grid.shared_bytes, 16);
  grid.stacks->Prepare(count_);
  std::size_t i = 0;
  for (unsigned z = 0; z < grid.block.z; ++z) {
    for (unsigned y = 0; y < grid.block.y; ++y) {
      for (unsigned x = 0; x < grid.block.x; ++x, ++i) {
        threads_[i].index = {x, y, z};
        threads_[i].context =
            MakeContext(grid.stacks->Bottom(i), &Block::Entry, this);
        contexts_[i] = &threads_[i].context;
      }
    }
  }
}

Block::~Block() {
  // ThreadSanitizer gives the numbers of ended threads to new ones, in the
  // order of their end, and takes two threads of one number for the same. So a
  // thread must not get the number of the one at its own place one block ago:
  // a race of these two is the likeliest.
  const std::size_t first = (ordinal_ + 1) * (count_ / 3 + 1);
  for (std::size_t i = 0; i < count_; ++i) {
    DestroyContext(contexts_[(first + i) % count_]);
  }
}

Block* Block::Current() { return current_block; }

void Block::Run(Sequence sequence) {
  scheduler_ = ThisContext();
  current_block = this;
  while (ended_ < count_ && exception_ == nullptr) {
    bool has_run = false;
    for (const std::size_t i : sequence.Next()) {
      Thread& thread = threads_[i];
      if (thread.state != State::kNew && thread.state != State::kReady) {
        continue;
      }
      has_run = true;
      Resume(&thread);
      if (exception_ != nullptr) break;
    }
    if (!has_run && !PassBarrier()) {
      exception_ = std::make_exception_ptr(LaunchError(Divergence()));
    }
  }
  if (exception_ != nullptr) Cancel();
  current_block = nullptr;
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  bool is_intact = dynamic_.IsIntact();
  for (std::size_t i = 0; i < num_statics_; ++i) {
    is_intact = is_intact && statics_[i].memory.IsIntact();
  }
  if (!is_intact) {
    throw LaunchError("block " + ToString(index_) +
                      " wrote beyond the end of its shared memory");
  }
}

void Block::Entry(void* block) {
  auto* self = static_cast<Block*>(block);
  EnterContext(&self->scheduler_);
  try {
    (*self->grid_.kernel)();
  } catch (const Cancelled&) {  // NOLINT(bugprone-empty-catch)
    // The exception that it was cancelled for is kept already.
  } catch (...) {
    if (self->exception_ == nullptr) {
      self->exception_ = std::current_exception();
    }
  }
  ReleaseTo(self->grid_.end);
  self->running_->state = State::kEnded;
  ++self->ended_;
  LeaveContext(&self->running_->context, &self->scheduler_);
}

void Block::Resume(Thread* thread) {
  running_ = thread;
  thread->state = State::kRunning;
  SwitchContext(&scheduler_, &thread->context);
  running_ = nullptr;
}

void Block::Wait() {
  SwitchContext(&running_->context, &scheduler_);
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass): nobody else may catch it
  if (is_cancelled_) throw Cancelled();
}

void Block::Cancel() {
  is_cancelled_ = true;
  for (std::size_t i = 0; i < count_; ++i) {
    Thread& thread = threads_[i];
    if (thread.state == State::kNew) continue;
    while (thread.state != State::kEnded) Resume(&thread);
  }
}

void Block::SyncThreads(const Location& where) {
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass): nobody else may catch it
  if (is_cancelled_) throw Cancelled();
  running_->state = State::kAtBarrier;
  running_->where = where;
  Wait();
}

bool Block::PassBarrier() {
  for (std::size_t i = 0; i < count_; ++i) {
    if (threads_[i].state != State::kAtBarrier ||
        !IsSame(threads_[i].where, threads_[0].where)) {
      return false;
    }
  }
  MeetContexts(contexts_.get(), count_, scheduler_);
  for (std::size_t i = 0; i < count_; ++i) threads_[i].state = State::kReady;
  return true;
}

std::uint64_t Block::WarpOperation(const WarpArguments& arguments,
                                   const Location& where) {
  // NOLINTNEXTLINE(bugprone-std-exception-baseclass): nobody else may catch it
  if (is_cancelled_) throw Cancelled();
  Thread* self = running_;
  const auto linear = static_cast<std::size_t>(self - threads_.get());
  const auto lane = static_cast<std::uint32_t>(linear % kWarp);
  Thread* warp = self - lane;
  const std::size_t lanes = std::min<std::size_t>(
      kWarp, count_ - static_cast<std::size_t>(warp - threads_.get()));
  self->arguments = arguments;
  self->where = where;
  if (!HasLane(arguments.mask, lane)) {
    throw LaunchError(Name(*self) + " calls " + ToString(arguments.op) +
                      " with the mask " + Hex(arguments.mask) +
                      ", which leaves out its own lane " +
                      std::to_string(lane) + ", at " + ToString(where));
  }
  if (arguments.width == 0 || arguments.width > kWarp ||
      (arguments.width & (arguments.width - 1)) != 0) {
    throw LaunchError(Name(*self) + " calls " + ToString(arguments.op) +
                      " with the width " + std::to_string(arguments.width) +
                      ", which is no power of two up to 32, at " +
                      ToString(where));
  }
  const std::uint32_t present =
      arguments.mask &
      (lanes == kWarp ? ~0U : (1U << static_cast<unsigned>(lanes)) - 1U);
  self->state = State::kAtWarpOp;
  for (std::uint32_t i = 0; i < lanes; ++i) {
    if (HasLane(present, i) && (warp[i].state != State::kAtWarpOp ||
                                warp[i].arguments.op != arguments.op ||
                                warp[i].arguments.mask != arguments.mask)) {
      Wait();
      return self->result;
    }
  }
  // The last to arrive; it goes on at once.
  self->state = State::kRunning;
  Context* met[kWarp];
  std::size_t num_met = 0;
  for (std::uint32_t i = 0; i < lanes; ++i) {
    if (!HasLane(present, i)) continue;
    warp[i].result = ResultFor(warp, present, i);
    met[num_met++] = &warp[i].context;
  }
  if (arguments.op == WarpOp::kSyncWarp) {
    MeetContexts(met, num_met, self->context);
  }
  for (std::uint32_t i = 0; i < lanes; ++i) {
    if (HasLane(present, i) && i != lane) warp[i].state = State::kReady;
  }
  return self->result;
}

std::uint64_t Block::ResultFor(const Thread* warp, std::uint32_t present,
                               std::uint32_t lane) const {
  const WarpArguments& arguments = warp[lane].arguments;
  if (arguments.op == WarpOp::kSyncWarp) return 0;
  if (arguments.op == WarpOp::kVote) {
    std::uint32_t votes = 0;
    for (std::uint32_t i = 0; i < kWarp; ++i) {
      if (HasLane(present, i) && warp[i].arguments.value != 0) {
        votes |= 1U << i;
      }
    }
    return votes;
  }
  const std::uint32_t source = SourceLane(arguments, lane);
  if (!HasLane(present, source)) {
    throw LaunchError(Name(warp[lane]) + " reads lane " +
                      std::to_string(source) + " by " + ToString(arguments.op) +
                      ", which takes no part, at " +
                      ToString(warp[lane].where));
  }
  return warp[source].arguments.value;
}

void* Block::DynamicSharedMemory() {
  if (dynamic_.data() == nullptr) {
    throw LaunchError(Name(*running_) +
                      " uses dynamic shared memory; the launch gave it none");
  }
  return dynamic_.data();
}

void* Block::StaticSharedMemory(const void* key, std::size_t bytes,
                                std::size_t alignment) {
  for (std::size_t i = 0; i < num_statics_; ++i) {
    if (statics_[i].key == key) return statics_[i].memory.data();
  }
  if (num_statics_ == kMaxStaticArrays) {
    throw LaunchError(Name(*running_) +
                      " uses more arrays of static shared memory than " +
                      std::to_string(kMaxStaticArrays));
  }
  StaticArray& array = statics_[num_statics_];
  array.memory = SharedMemory(bytes, alignment);
  array.key = key;
  ++num_statics_;
  return array.memory.data();
}

std::string Block::Name(const Thread& thread) const {
  return "block " + ToString(index_) + ": thread " + ToString(thread.index);
}

std::string Block::Doing(const Thread& thread) {
  switch (thread.state) {
    case State::kAtBarrier:
      return "at __syncthreads, " + ToString(thread.where);
    case State::kAtWarpOp:
      return "at " + std::string(ToString(thread.arguments.op)) +
             " with the mask " + Hex(thread.arguments.mask) + ", " +
             ToString(thread.where);
    case State::kEnded:
      return "at the kernel's end";
    case State::kNew:
    case State::kReady:
    case State::kRunning:
      break;
  }
  return "running";
}

std::string Block::Divergence() const {
  constexpr std::size_t kMaxNamed = 4;
  std::map<std::string, std::vector<std::string>> groups;
  for (std::size_t i = 0; i < count_; ++i) {
    groups[Doing(threads_[i])].push_back(ToString(threads_[i].index));
  }
  std::string text =
      "block " + ToString(index_) + ": its threads wait for each other:";
  for (const auto& [doing, threads] : groups) {
    text += (text.back() == ':' ? " " : "; ") + std::to_string(threads.size()) +
            " of " + std::to_string(count_) + " are " + doing + " (";
    for (std::size_t i = 0; i < std::min(kMaxNamed, threads.size()); ++i) {
      text += (i == 0 ? "" : ", ") + threads[i];
    }
    text += threads.size() > kMaxNamed ? ", ...)" : ")";
  }
  return text;
}

}  // namespace servecore::cuda::testing
