// Dequantisation, bit-equal to that of llama.cpp's Python package. The blocks
// and their values are made by tests/testdata/make_dequantized.py.
#include "kernels/quant/dequantize.h"

#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/decode_hex.h"
#include "gtest/gtest.h"
#include "tests/kernels/backend_fixture.h"

namespace plimsoll::kernels {
namespace {

TEST(DequantizeTest, HasTheBitsOfAnotherImplementationInEveryType) {
  std::ifstream file("tests/testdata/dequantized.txt");
  std::set<DType> tested;
  std::string name;
  std::string blocks;
  std::string values;
  while (file >> name >> blocks >> values) {
    const DTypeInfo* info = FindDType(name);
    ASSERT_NE(info, nullptr) << name;
    tested.insert(info->dtype);
    const std::string bytes = DecodeHex(blocks);
    const std::string expected = DecodeHex(values);
    std::vector<float> out(expected.size() / sizeof(float));
    ASSERT_EQ(*RowBytes(info->dtype, static_cast<int64_t>(out.size())),
              static_cast<int64_t>(bytes.size()));
    ASSERT_TRUE(DequantizeRow(info->dtype,
                              reinterpret_cast<const std::byte*>(bytes.data()),
                              static_cast<int64_t>(out.size()), out.data())
                    .ok());
    for (size_t i = 0; i < out.size(); ++i) {
      float value;
      std::memcpy(&value, expected.data() + i * sizeof(value), sizeof(value));
      // Adding zero makes negative zeros positive.
      ASSERT_EQ(Bits({out[i] + 0.0f}), Bits({value + 0.0f}))
          << name << " element " << i;
    }
  }
  for (const DType dtype : WeightTypes()) {
    EXPECT_EQ(tested.count(dtype) == 1, InfoOf(dtype).block_elems > 1)
        << DTypeName(dtype);
  }
}

}  // namespace
}  // namespace plimsoll::kernels
