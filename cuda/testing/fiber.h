// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef SERVECORE_CUDA_TESTING_FIBER_H_
#define SERVECORE_CUDA_TESTING_FIBER_H_

#include <cstddef>

// Stacks that take turns on one OS thread, known to AddressSanitizer and
// ThreadSanitizer. Thread safety: all of one set of fibers is used by one OS
// thread.
namespace servecore::cuda::testing {

// Stacks of equal size, each above a guard page: an overflow is a segmentation
// fault and not another fiber's changed variables.
//
// Ownership: owns the memory, which the kernel backs only where it is touched.
// Copies: none; movable only by address, so it stays where it was made.
class FiberStacks {
 public:
  // Most of it for the sanitizers, which write their reports on the stack of
  // the fiber that they found something in.
  static constexpr std::size_t kBytes = std::size_t{256} << 10U;

  FiberStacks() = default;
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;
  ~FiberStacks();

  // Makes room for `count` stacks, without contents. Under ThreadSanitizer the
  // memory is new at every call, or the fibers of one block would seem to race
  // with those of an earlier one. Throws std::bad_alloc.
  void Prepare(std::size_t count);

  // The lowest byte of a stack.
  [[nodiscard]] char* Bottom(std::size_t i) const;

 private:
  void Release();

  char* memory_ = nullptr;
  std::size_t count_ = 0;
};

// A place to come back to: the OS thread's own stack, or a fiber's.
struct Context {
  void* stack_pointer = nullptr;
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  // What the sanitizers know this context by.
  void* fake_stack = nullptr;
  void* tsan = nullptr;
};

// The context of what runs now, to be left by SwitchContext.
Context ThisContext();

// A context that calls entry(argument) when it is first switched to. entry must
// not return nor throw: it leaves by LeaveContext. Under ThreadSanitizer it is
// a thread that the running one has created.
// Lifetime: the stack must live as long as the context is used.
Context MakeContext(char* bottom, void (*entry)(void*), void* argument);

// Ends what MakeContext made. Not while it runs.
void DestroyContext(Context* context);

// Goes from `from`, which runs, to `to`. Returns when something switches back.
// To ThreadSanitizer a switch orders nothing.
void SwitchContext(Context* from, Context* to);

// As the last thing that `from` does.
[[noreturn]] void LeaveContext(Context* from, Context* to);

// The first thing in a context that was switched to for the first time.
void EnterContext(Context* came_from);

// Whether ThreadSanitizer watches this program.
bool IsTsanOn();

// Tells ThreadSanitizer that all these contexts met: what each did before comes
// before what any of them does next. `contexts` may hold the running one.
void MeetContexts(Context* const* contexts, std::size_t count,
                  const Context& running);

// Tells ThreadSanitizer that what happened before Release(token) comes before
// what happens after Acquire(token).
void ReleaseTo(void* token);
void AcquireFrom(void* token);

// From here to its end ThreadSanitizer looks away from what this context does,
// and memory taken from the heap is as if it were new for all.
class TsanIgnores {
 public:
  TsanIgnores();
  TsanIgnores(const TsanIgnores&) = delete;
  TsanIgnores& operator=(const TsanIgnores&) = delete;
  ~TsanIgnores();
};

// Makes ThreadSanitizer forget who has used the program's static variables.
void ForgetStatics();

}  // namespace servecore::cuda::testing

#endif  // SERVECORE_CUDA_TESTING_FIBER_H_
