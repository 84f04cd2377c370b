// Output files are whole or untouched.
#include "reports/files.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace normgate {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("normgate-files-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string read(const std::string& path) {
    std::ostringstream content;
    content << std::ifstream(path).rdbuf();
    return content.str();
  }
  fs::path folder_;
};

TEST_F(Files, WritesAndReplaces) {
  EXPECT_EQ(write_file(path("a"), "one\n"), std::nullopt);
  EXPECT_EQ(write_file(path("a"), "two\n"), std::nullopt);
  EXPECT_EQ(read(path("a")), "two\n");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(Files, CheckingLeavesNothingBehind) {
  EXPECT_EQ(check_writable(path("new")), std::nullopt);
  EXPECT_EQ(entries(), 0U);
  ASSERT_EQ(write_file(path("old"), "kept"), std::nullopt);
  EXPECT_EQ(check_writable(path("old")), std::nullopt);
  EXPECT_EQ(read(path("old")), "kept");
}

TEST_F(Files, SaysWhatIsWrong) {
  for (const auto& question : {+[](const std::string& file) { return check_writable(file); },
                               +[](const std::string& file) { return write_file(file, "x"); }}) {
    const auto missing = question(path("no/such/file"));
    ASSERT_TRUE(missing);
    EXPECT_NE(missing->find("does not exist"), std::string::npos) << *missing;
    const auto folder = question(folder_.string());
    ASSERT_TRUE(folder);
    EXPECT_NE(folder->find("is a folder"), std::string::npos) << *folder;
    EXPECT_TRUE(question(""));
  }
  EXPECT_EQ(entries(), 0U);
}

TEST_F(Files, FollowsLinks) {
  ASSERT_EQ(write_file(path("real"), "one"), std::nullopt);
  fs::create_symlink("real", folder_ / "link");
  EXPECT_EQ(write_file(path("link"), "two"), std::nullopt);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(read(path("real")), "two");
}

TEST_F(Files, DevicesStayDevices) {
  EXPECT_EQ(check_writable("/dev/null"), std::nullopt);
  EXPECT_EQ(write_file("/dev/null", "x"), std::nullopt);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace normgate
