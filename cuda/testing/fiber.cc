// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda/testing/fiber.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#error "fiber.cc switches stacks of x86-64 only"
#endif

// ThreadSanitizer's own names. Weak: this file is compiled without its checks,
// since to it every fiber is a thread, and what all fibers share here would be
// a race; whether it is there is seen when the program runs.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* address);
[[gnu::weak]] void __tsan_release(void* address);
[[gnu::weak]] void __tsan_ignore_thread_begin();
[[gnu::weak]] void __tsan_ignore_thread_end();
[[gnu::weak]] void __tsan_java_init(std::uintptr_t begin, std::size_t size);
[[gnu::weak]] void __tsan_java_alloc(std::uintptr_t begin, std::size_t size);
// The linker's: where the program's static variables begin and end.
[[gnu::weak]] extern char __data_start;
[[gnu::weak]] extern char _end;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

// void SwitchStack(void** save, void* load): saves what a call must keep on
// this stack, and its pointer to *save; goes on where `load` was saved.
// FiberStart: the first return address of a new stack.
// NOLINTNEXTLINE(portability-no-assembler): nothing else can switch stacks
asm(R"(
  .text
  .p2align 4
  .type servecore_switch_stack, @function
servecore_switch_stack:
  .cfi_startproc
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .cfi_endproc
  .size servecore_switch_stack, .-servecore_switch_stack
  .p2align 4
  .type servecore_fiber_start, @function
servecore_fiber_start:
  .cfi_startproc
  .cfi_undefined rip
  movq %r13, %rdi
  callq *%r12
  ud2
  .cfi_endproc
  .size servecore_fiber_start, .-servecore_fiber_start
)");

namespace servecore::cuda::testing {
namespace {

// Without a synchronisation that the switch would stand for.
constexpr unsigned kNoSync = 1;

constexpr std::size_t kGuard = 4096;
constexpr std::size_t kPitch = FiberStacks::kBytes + kGuard;

extern "C" {
void SwitchStack(void** save, void* load) asm("servecore_switch_stack");
void FiberStart() asm("servecore_fiber_start");
}

void StartSwitch(void** fake_stack, [[maybe_unused]] const Context& to) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(fake_stack, to.bottom, to.bytes);
#else
  static_cast<void>(fake_stack);
#endif
  if (IsTsanOn()) __tsan_switch_to_fiber(to.tsan, kNoSync);
}

void FinishSwitch([[maybe_unused]] void* fake_stack,
                  [[maybe_unused]] Context* came_from) {
#ifdef __SANITIZE_ADDRESS__
  if (came_from == nullptr) {
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
  } else {
    __sanitizer_finish_switch_fiber(fake_stack, &came_from->bottom,
                                    &came_from->bytes);
  }
#endif
}

}  // namespace

FiberStacks::~FiberStacks() { Release(); }

void FiberStacks::Release() {
  if (memory_ != nullptr) munmap(memory_, count_ * kPitch);
  memory_ = nullptr;
  count_ = 0;
}

void FiberStacks::Prepare(std::size_t count) {
  if (!IsTsanOn() && count <= count_) return;
  Release();
  void* memory = mmap(nullptr, count * kPitch, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  count_ = count;
  for (std::size_t i = 0; i < count; ++i) {
    if (mprotect(memory_ + i * kPitch, kGuard, PROT_NONE) != 0) {
      throw std::bad_alloc();
    }
  }
}

char* FiberStacks::Bottom(std::size_t i) const {
  return memory_ + i * kPitch + kGuard;
}

Context ThisContext() {
  Context context;
  if (IsTsanOn()) context.tsan = __tsan_get_current_fiber();
  return context;
}

Context MakeContext(char* bottom, void (*entry)(void*), void* argument) {
  Context context;
  context.bottom = bottom;
  context.bytes = FiberStacks::kBytes;
#ifdef __SANITIZE_ADDRESS__
  // Left by a fiber that ended here in an error.
  __asan_unpoison_memory_region(bottom, FiberStacks::kBytes);
#endif
  // What SwitchStack takes off again, lowest first: r15, r14, r13, r12, rbx,
  // rbp and the return address. The stack is then on a 16-byte boundary, as a
  // call wants it.
  auto* frame = reinterpret_cast<void**>(bottom + FiberStacks::kBytes) - 9;
  for (int i = 0; i < 9; ++i) frame[i] = nullptr;
  frame[2] = argument;
  frame[3] = reinterpret_cast<void*>(entry);
  frame[6] = reinterpret_cast<void*>(&FiberStart);
  context.stack_pointer = static_cast<void*>(frame);
  if (IsTsanOn()) context.tsan = __tsan_create_fiber(0);
  return context;
}

void DestroyContext(Context* context) {
  if (context->tsan != nullptr) __tsan_destroy_fiber(context->tsan);
  context->tsan = nullptr;
}

void SwitchContext(Context* from, Context* to) {
  StartSwitch(&from->fake_stack, *to);
  SwitchStack(&from->stack_pointer, to->stack_pointer);
  FinishSwitch(from->fake_stack, nullptr);
}

void LeaveContext(Context* from, Context* to) {
  // No place for its fake stack: AddressSanitizer frees it.
  StartSwitch(nullptr, *to);
  SwitchStack(&from->stack_pointer, to->stack_pointer);
  std::abort();
}

void EnterContext(Context* came_from) { FinishSwitch(nullptr, came_from); }

bool IsTsanOn() { return &__tsan_create_fiber != nullptr; }

void MeetContexts(Context* const* contexts, std::size_t count,
                  const Context& running) {
  if (!IsTsanOn()) return;
  // New for each meeting: an old one would bring in who met earlier.
  void* token = std::malloc(8);
  for (std::size_t i = 0; i < count; ++i) {
    __tsan_switch_to_fiber(contexts[i]->tsan, kNoSync);
    __tsan_release(token);
  }
  for (std::size_t i = 0; i < count; ++i) {
    __tsan_switch_to_fiber(contexts[i]->tsan, kNoSync);
    __tsan_acquire(token);
  }
  __tsan_switch_to_fiber(running.tsan, kNoSync);
  std::free(token);
}

void ReleaseTo(void* token) {
  if (IsTsanOn()) __tsan_release(token);
}

void AcquireFrom(void* token) {
  if (IsTsanOn()) __tsan_acquire(token);
}

TsanIgnores::TsanIgnores() {
  if (IsTsanOn()) __tsan_ignore_thread_begin();
}

TsanIgnores::~TsanIgnores() {
  if (IsTsanOn()) __tsan_ignore_thread_end();
}

void ForgetStatics() {
  if (!IsTsanOn() || &__data_start == nullptr || &_end == nullptr) return;
  // ThreadSanitizer has no call for it but the one of its Java interface that
  // says that an object was allocated here.
  const std::uintptr_t begin =
      (reinterpret_cast<std::uintptr_t>(&__data_start) + 7) / 8 * 8;
  const std::size_t bytes =
      (reinterpret_cast<std::uintptr_t>(&_end) - begin) / 8 * 8;
  static bool is_ready = false;
  if (!is_ready) __tsan_java_init(begin, bytes);
  is_ready = true;
  __tsan_java_alloc(begin, bytes);
}

}  // namespace servecore::cuda::testing
