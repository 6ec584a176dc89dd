// Copyright 2026 The servecore Authors
// SPDX-License-Identifier: Apache-2.0

#include "cc/ops/rotary_embedding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "cc/ops/dtype.h"
#include "cc/ops/row_layout.h"
#include "cc/ops/target.h"
#include "tests/cc/strided_tensor.h"

namespace servecore::ops {
namespace {

constexpr std::int64_t kPositions = 50;

double Tolerance(DType dtype) {
  return dtype == DType::kFloat64 ? 1e-15 : 3e-7;
}

// What the rotation makes of `before`, heads of (tokens, heads, head_dim).
void ExpectRotated(const StridedTensor& before, const StridedTensor& after,
                   const StridedTensor& cache, const Ints& positions,
                   bool neox) {
  const DType dtype = before.dtype();
  const std::int64_t dim = before.dim();
  const std::int64_t heads = before.sizes()[1];
  const std::int64_t rot_dim = cache.dim();
  const std::int64_t pairs = rot_dim / 2;
  for (std::int64_t row = 0; row < before.numel() / dim; ++row) {
    const std::int64_t at =
        positions[static_cast<std::size_t>(row / heads)] * rot_dim;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::int64_t first = row * dim + (neox ? i : 2 * i);
      const std::int64_t second = first + (neox ? pairs : 1);
      const double a = before.At(first);
      const double b = before.At(second);
      const double cos = cache.At(at + i);
      const double sin = cache.At(at + pairs + i);
      ASSERT_TRUE(Near(dtype, after.At(first), a * cos - b * sin,
                       Tolerance(dtype), std::abs(a) + std::abs(b)))
          << "row " << row << ", pair " << i << " of " << pairs;
      ASSERT_TRUE(Near(dtype, after.At(second), b * cos + a * sin,
                       Tolerance(dtype), std::abs(a) + std::abs(b)))
          << "row " << row << ", pair " << i << " of " << pairs;
    }
    for (std::int64_t i = rot_dim; i < dim; ++i) {
      ASSERT_EQ(after.At(row * dim + i), before.At(row * dim + i))
          << "row " << row << ", beyond the rotated elements";
    }
  }
  after.ExpectOthersUntouched(before);
}

struct Operands {
  Operands(DType dtype, DType cache_dtype, std::int64_t tokens,
           std::int64_t head_dim, std::int64_t rot_dim, std::int64_t stride)
      : q(dtype, {tokens, 3, head_dim},
          {3 * head_dim * stride + 5, head_dim * stride, stride}, head_dim % 4),
        // Heads before tokens, as in (batch, heads, tokens, head_dim).
        k(dtype, {tokens, 2, head_dim},
          {head_dim * stride, tokens * head_dim * stride, stride}),
        cache(StridedTensor::Contiguous(cache_dtype, {kPositions, rot_dim},
                                        rot_dim % 3)) {}

  void Randomise(std::mt19937& generator) {
    q.Randomise(generator);
    k.Randomise(generator);
    cache.Randomise(generator);
    for (std::int64_t i = 0; i < cache.numel(); ++i) {
      cache.Set(i, std::cos(cache.At(i)));
    }
    positions.clear();
    for (std::int64_t i = 0; i < q.sizes()[0]; ++i) {
      positions.push_back(static_cast<std::int64_t>(generator() % kPositions));
    }
  }

  RotaryEmbeddingArgs Args(bool neox) {
    return {.dtype = q.dtype(),
            .q = {q.rows(), q.sizes()[1]},
            .k = {k.rows(), k.sizes()[1]},
            .positions = positions.data(),
            .num_tokens = q.sizes()[0],
            .cache = cache.const_rows(),
            .cache_dtype = cache.dtype(),
            .neox = neox};
  }

  StridedTensor q;
  StridedTensor k;
  StridedTensor cache;
  Ints positions;
};

class RotaryEmbeddingTest : public testing::TestWithParam<Target> {
  ForcedTarget target_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Targets, RotaryEmbeddingTest,
                         testing::ValuesIn(SupportedTargets().begin(),
                                           SupportedTargets().end()),
                         [](const testing::TestParamInfo<Target>& info) {
                           return NameOf(info.param);
                         });

TEST_P(RotaryEmbeddingTest, MatchesTheReferenceAndWritesNothingElse) {
  unsigned seed = 0;
  for (const auto& [dtype, cache_dtype] : kDTypePairs) {
    for (const bool neox : {true, false}) {
      for (const std::int64_t head_dim : {2, 64, 80, 128, 131, 4200}) {
        for (const std::int64_t rot_dim :
             {head_dim / 2 * 2, head_dim / 4 * 2}) {
          for (const std::int64_t stride : {1, 2}) {
            std::mt19937 generator(++seed);
            Operands o(dtype, cache_dtype, 2, head_dim, rot_dim, stride);
            o.Randomise(generator);
            const Operands before = o;
            RotaryEmbedding(o.Args(neox));
            SCOPED_TRACE(testing::Message()
                         << NameOf(cache_dtype) << " cache, neox " << neox
                         << ", head_dim " << head_dim << ", stride " << stride);
            ExpectRotated(before.q, o.q, o.cache, o.positions, neox);
            ExpectRotated(before.k, o.k, o.cache, o.positions, neox);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST_P(RotaryEmbeddingTest, ReadsPositionsAndCacheByTheirStrides) {
  unsigned seed = 1000;
  for (const auto& [dtype, cache_dtype] : kDTypePairs) {
    for (const bool neox : {true, false}) {
      std::mt19937 generator(++seed);
      Operands o(dtype, cache_dtype, 5, 64, 48, 1);
      o.cache = StridedTensor(cache_dtype, {kPositions, 48}, {1, kPositions});
      o.Randomise(generator);
      const Operands before = o;
      RotaryEmbeddingArgs args = o.Args(neox);
      const Ints reversed(o.positions.rbegin(), o.positions.rend());
      args.positions = reversed.data() + 4;
      args.positions_stride = -1;
      RotaryEmbedding(args);
      ExpectRotated(before.q, o.q, o.cache, o.positions, neox);
      ExpectRotated(before.k, o.k, o.cache, o.positions, neox);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(RotaryEmbeddingTest, ARangeOfTokensLeavesTheOthersAndNoKIsFine) {
  unsigned seed = 2000;
  for (const DType dtype : kDTypes) {
    std::mt19937 generator(++seed);
    Operands o(dtype, dtype, 6, 64, 64, 1);
    o.Randomise(generator);
    Operands part = o;
    RotaryEmbedding(o.Args(true));
    const Operands before = part;
    RotaryEmbeddingArgs args = part.Args(true);
    args.k.rows.data = nullptr;
    RotaryEmbedding(args, 2, 4);
    for (std::int64_t i = 0; i < o.q.numel(); ++i) {
      const bool in_range = i / 192 == 2 || i / 192 == 3;
      ASSERT_EQ(part.q.At(i), in_range ? o.q.At(i) : before.q.At(i));
    }
    EXPECT_TRUE(part.k.memory() == before.k.memory());
  }
}

TEST_P(RotaryEmbeddingTest, NothingToRotateTouchesNothing) {
  std::mt19937 generator(GetParam() == Target::kBaseline ? 1 : 2);
  for (const auto& [tokens, rot_dim] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 64}, {3, 0}}) {
    Operands o(DType::kFloat32, DType::kFloat32, tokens, 64, rot_dim, 1);
    o.Randomise(generator);
    const Operands before = o;
    RotaryEmbedding(o.Args(true));
    EXPECT_TRUE(o.q.memory() == before.q.memory());
    EXPECT_TRUE(o.k.memory() == before.k.memory());
  }
}

TEST(RotaryEmbeddingErrorTest, MisuseNamesBothValuesAndWritesNothing) {
  Operands o(DType::kFloat32, DType::kFloat32, 4, 64, 64, 1);
  std::mt19937 generator(o.q.numel());
  o.Randomise(generator);
  const Operands before = o;
  const auto error = [](const RotaryEmbeddingArgs& args) {
    return MessageOf([&args] { RotaryEmbedding(args); });
  };

  RotaryEmbeddingArgs args = o.Args(true);
  args.q.heads = 4;
  EXPECT_EQ(error(args),
            "RotaryEmbedding: q has 12 rows for 4 tokens of 4 heads; it must "
            "have one row a token and head");
  args = o.Args(true);
  args.k.heads = 0;
  EXPECT_EQ(error(args),
            "RotaryEmbedding: k has 8 rows for 4 tokens of 0 heads; it must "
            "have one row a token and head");
  args = o.Args(true);
  args.cache.layout = RowLayout(Ints{10, 66}, Ints{66, 1});
  EXPECT_EQ(error(args),
            "RotaryEmbedding: q has heads of 64 elements, the cache has rows "
            "of 66; they must not be longer than a head");
  args.cache.layout = RowLayout(Ints{10, 63}, Ints{63, 1});
  EXPECT_EQ(error(args),
            "RotaryEmbedding: the cache has rows of 63 elements; it must be an "
            "even number, as many cosines as sines");
  args = o.Args(true);
  args.cache_dtype = DType::kFloat16;
  EXPECT_EQ(error(args),
            "RotaryEmbedding: the cache is float16, the rows are float32; "
            "allowed with these are float32");
  args = o.Args(true);
  EXPECT_EQ(MessageOf([&args] { RotaryEmbedding(args, 3, 5); }),
            "RotaryEmbedding: tokens [3, 5); allowed are ranges within [0, 4)");

  for (const std::int64_t position : {std::int64_t{-1}, kPositions}) {
    o.positions[3] = position;
    for (const auto check : {+[](const RotaryEmbeddingArgs& checked) {
                               CheckRotaryEmbedding(checked);
                             },
                             +[](const RotaryEmbeddingArgs& rotated) {
                               RotaryEmbedding(rotated);
                             }}) {
      try {
        check(o.Args(true));
        ADD_FAILURE() << "position " << position << " was accepted";
      } catch (const std::out_of_range& out_of_range) {
        EXPECT_EQ(out_of_range.what(),
                  "RotaryEmbedding: positions[3] is " +
                      std::to_string(position) +
                      "; allowed are 0 to 49, as many as the cache has rows");
      }
    }
  }
  EXPECT_TRUE(o.q.memory() == before.q.memory());
  EXPECT_TRUE(o.k.memory() == before.k.memory());
}

}  // namespace
}  // namespace servecore::ops
