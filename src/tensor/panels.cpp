#include "tensor/panels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace switchyard {
namespace {

struct Codes {
  int zero;
  int lowest;
  int highest;
  int64_t block_bytes;
};

// int8 leaves out its lowest code, so that the range is symmetric.
constexpr Codes codes_of(MatrixFormat format) {
  if (format == MatrixFormat::kInt8Panels) return {Int8PanelBlock::kZero, 1, 255, sizeof(Int8PanelBlock)};
  return {Int4PanelBlock::kZero, 0, 15, sizeof(Int4PanelBlock)};
}

constexpr int64_t scales_offset(MatrixFormat format) {
  return format == MatrixFormat::kInt8Panels ? offsetof(Int8PanelBlock, scales)
                                             : offsetof(Int4PanelBlock, scales);
}

// Where the code of (row, col) lies, and by how many bits it is shifted there.
struct CodePlace {
  int64_t byte;
  int shift;
};

constexpr CodePlace place_of(MatrixFormat format, int64_t row, int64_t col) {
  if (format == MatrixFormat::kInt8Panels) return {64 * (col / 4) + 4 * row + col % 4, 0};
  return {64 * (col / 8) + 4 * row + col % 4, col % 8 < 4 ? 0 : 4};
}

struct Candidate {
  float scale;
  float error;
};

// The code nearest to value / scale, less zero. Written so that compilers make vectors of it: adding and
// taking away 1.5 * 2^23 rounds to the nearest whole number, ties to even.
inline float nearest_step(float value, float inverse_scale, const Codes& codes) {
  constexpr float kMagic = 12582912.0f;
  const auto lowest = static_cast<float>(codes.lowest - codes.zero);
  const auto highest = static_cast<float>(codes.highest - codes.zero);
  const float step = value * inverse_scale;
  const float bounded = step < lowest ? lowest : step > highest ? highest : step;
  return (bounded + kMagic) - kMagic;
}

float squared_error(const float* values, const float* importance, float scale, const Codes& codes) {
  constexpr int64_t kLanes = 8;
  const float inverse = 1.0f / scale;
  float sums[kLanes] = {};
  for (int64_t i = 0; i < kPanelCols; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const float off = values[i + l] - scale * nearest_step(values[i + l], inverse, codes);
      sums[l] += importance[i + l] * off * off;
    }
  }
  float error = 0;
  for (const float sum : sums)
    error += sum;
  return error;
}

float as_f16(float value) {
  return f16_to_f32(f32_to_f16(value));
}

// The scale to round with; 0 for a group that is all zeros, or too small for a scale.
float best_scale(const float* values, const float* importance, const Codes& codes) {
  // The value of largest size gets the code at the end of its side, and since int4 has one more code below
  // zero than above, scales may be negative.
  float extreme = 0;
  for (int64_t i = 0; i < kPanelCols; ++i) {
    if (std::abs(values[i]) > std::abs(extreme)) extreme = values[i];
  }
  const auto below = static_cast<float>(codes.lowest - codes.zero);
  Candidate best{as_f16(extreme / below), 0};
  if (best.scale == 0) return 0;
  best.error = squared_error(values, importance, best.scale, codes);
  if (codes.highest > 15) return best.scale;  // with 8 bits clipping gains nothing
  // Finer steps that clip the extreme, and coarser ones.
  for (float end = -6.5f; end >= -9.6f; end -= 0.25f) {
    const float scale = as_f16(extreme / end);
    if (scale == 0) continue;
    const float error = squared_error(values, importance, scale, codes);
    if (error < best.error) best = {scale, error};
  }
  return best.scale;
}

void check_values(const float* values, int64_t count, std::string_view item) {
  constexpr float kLargest = 65504;
  for (int64_t i = 0; i < count; ++i) {
    if (!(std::abs(values[i]) <= kLargest)) {
      throw Error("packing", std::string(item), fmt::format("finite values up to {}", kLargest),
                  fmt::format("{}", values[i]));
    }
  }
}

}  // namespace

int64_t panel_bytes(MatrixFormat format, int64_t cols) {
  return panel_blocks(cols) * codes_of(format).block_bytes;
}

PanelGroup read_panel_group(MatrixFormat format, const std::byte* block, int64_t row) {
  const int mask = format == MatrixFormat::kInt8Panels ? 0xFF : 0x0F;
  PanelGroup group;
  for (int64_t col = 0; col < kPanelCols; ++col) {
    const CodePlace place = place_of(format, row, col);
    group.codes[col] = static_cast<uint8_t>(std::to_integer<int>(block[place.byte]) >> place.shift & mask);
  }
  std::memcpy(&group.scale, block + scales_offset(format) + row * 2, sizeof group.scale);
  return group;
}

void write_panel_group(MatrixFormat format, const PanelGroup& group, int64_t row, std::byte* block) {
  for (int64_t col = 0; col < kPanelCols; ++col) {
    const CodePlace place = place_of(format, row, col);
    const std::byte kept = format == MatrixFormat::kInt8Panels
                               ? std::byte{0}
                               : block[place.byte] & static_cast<std::byte>(0xF0 >> place.shift);
    block[place.byte] = kept | static_cast<std::byte>(group.codes[col] << place.shift);
  }
  std::memcpy(block + scales_offset(format) + row * 2, &group.scale, sizeof group.scale);
}

float panel_value(MatrixFormat format, const PanelGroup& group, int64_t col) {
  return f16_to_f32(group.scale) * static_cast<float>(group.codes[col] - codes_of(format).zero);
}

PanelGroup round_panel_group(MatrixFormat format, const float* values, const float* importance) {
  constexpr std::array<float, kPanelCols> kAlike = [] {
    std::array<float, kPanelCols> ones{};
    ones.fill(1);
    return ones;
  }();
  const Codes codes = codes_of(format);
  const float scale = best_scale(values, importance == nullptr ? kAlike.data() : importance, codes);
  const float inverse = scale == 0 ? 0.0f : 1.0f / scale;
  PanelGroup group{{}, f32_to_f16(scale)};
  for (int64_t i = 0; i < kPanelCols; ++i)
    group.codes[i] =
        static_cast<uint8_t>(nearest_step(values[i], inverse, codes) + static_cast<float>(codes.zero));
  return group;
}

void pack_panel(const Matrix& source, int64_t panel, MatrixFormat format, std::string_view item,
                std::byte* out) {
  const int64_t blocks = panel_blocks(source.cols);
  std::vector<float> row(static_cast<size_t>(blocks * kPanelCols));
  for (int64_t r = 0; r < kPanelRows; ++r) {
    std::fill(row.begin(), row.end(), 0.0f);
    const int64_t from = panel * kPanelRows + r;
    if (from < source.rows) decode_row(source, from, 0, source.cols, row.data());
    check_values(row.data(), source.cols, item);
    for (int64_t b = 0; b < blocks; ++b) {
      write_panel_group(format, round_panel_group(format, row.data() + b * kPanelCols), r,
                        out + b * codes_of(format).block_bytes);
    }
  }
}

}  // namespace switchyard
