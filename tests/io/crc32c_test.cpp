#include "attend/io/crc32c.hpp"

#include <string>

#include "catch.hpp"

using attend::io::crc32c;

TEST_CASE("crc32c: the examples of RFC 3720, B.4") {
  std::string up, down;
  for (int i = 0; i < 32; ++i) up += static_cast<char>(i), down += static_cast<char>(31 - i);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  CHECK(crc32c(up) == 0x46dd794e);
  CHECK(crc32c(down) == 0x113fdb5c);
  std::string read(48, '\0');  // an iSCSI SCSI Read (10) command
  read[0] = 0x01, read[1] = '\xc0', read[16] = 0x14, read[22] = 0x04, read[27] = 0x14, read[31] = 0x18, read[32] = 0x28;
  read[40] = 0x02;
  CHECK(crc32c(read) == 0xd9963a56);
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c("") == 0);
}
