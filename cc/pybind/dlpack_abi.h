// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

// The binary layout of DLPack tensors: the part that a consumer of CPU tensors
// reads. Names and layout are those of the DLPack specification, version 1;
// they are an ABI between libraries and must not be changed.

#ifndef SERVECORE_CC_PYBIND_DLPACK_ABI_H_
#define SERVECORE_CC_PYBIND_DLPACK_ABI_H_

#include <cstdint>

namespace servecore::pybind::dlpack {

inline constexpr std::int32_t kDLCPU = 1;
inline constexpr std::uint32_t kMajorVersion = 1;

enum TypeCode : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6,
};

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major and compact
  std::uint64_t byte_offset;
};

// Carried by a capsule named "dltensor".
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

// Carried by a capsule named "dltensor_versioned".
struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

}  // namespace servecore::pybind::dlpack

#endif  // SERVECORE_CC_PYBIND_DLPACK_ABI_H_
