#include "golden/golden.hpp"

#include "reference/live.hpp"

#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace golden {
namespace {

struct Module {
    const char *name;
    std::vector<Row> (*rows)();
};
const Module MODULES[] = {{"integral", integralRows}, {"match", matchRows},   {"framediff", framediffRows},
                          {"hsv", hsvRows},           {"stereo", stereoRows}, {"events", eventsRows},
                          {"eventgen", eventgenRows}, {"raw", rawRows},       {"motion", motionRows},
                          {"remap", remapRows},       {"pose", poseRows},     {"video", videoRows}};

const char HEADER[] = "function,options,seed,size,type,crc32c";

// The tables are compiled in, so that the tests run on machines without this folder.
const std::map<std::string, std::string> TABLES = {
#include "golden/tables.inc"
};

std::string checksum(const Data &data) {
    char text[9];
    std::snprintf(text, sizeof text, "%08x", reference::crc32c(data.data(), data.size()));
    return text;
}

// key -> checksum
std::map<std::string, std::string> read(const Module &module) {
    std::map<std::string, std::string> rows;
    std::istringstream table(TABLES.at(module.name));
    std::string line;
    std::getline(table, line);
    EXPECT_EQ(line, HEADER) << module.name;
    while (std::getline(table, line)) {
        const size_t comma = line.rfind(',');
        EXPECT_TRUE(rows.emplace(line.substr(0, comma), line.substr(comma + 1)).second) << "twice: " << line;
    }
    return rows;
}

class GoldenReference : public testing::TestWithParam<Module> {};
class Golden : public testing::TestWithParam<std::tuple<Module, cusSpace>> {};

// The reference gives the committed rows; with CUSIGHT_MAKE_GOLDEN it writes them.
TEST_P(GoldenReference, GivesTheRows) {
    const Module module = GetParam();
    std::set<std::string> keys;
    std::map<std::string, std::string> committed = read(module);
    std::string text = std::string(HEADER) + "\n";
    for (const Row &row : module.rows()) {
        ASSERT_TRUE(keys.insert(row.key()).second) << "two rows " << row.key();
        const std::string line = row.key() + "," + checksum(row.expected());
        text += line + "\n";
        if (!std::getenv("CUSIGHT_MAKE_GOLDEN"))
            EXPECT_EQ(row.key() + "," + committed[row.key()], line);
    }
    if (std::getenv("CUSIGHT_MAKE_GOLDEN"))
        std::ofstream(support::sourceFile("test/golden/tables/") + module.name + ".csv") << text;
    else
        EXPECT_EQ(committed.size(), keys.size()) << module.name << ".csv has rows that no case makes";
}

// A backend gives the committed rows, in tight memory and with padded rows at an odd offset.
TEST_P(Golden, Rows) {
    const auto [module, space] = GetParam();
    CUS_NEEDS(space);
    const auto committed = read(module);
    for (const Row &row : module.rows()) {
        if (row.promise == (space == CUS_DEVICE ? Promise::HOST_ONLY : Promise::DEVICE_ONLY))
            continue;
        const auto found = committed.find(row.key());
        ASSERT_NE(found, committed.end()) << "no such row in " << module.name << ".csv: " << row.key();
        for (const Layout layout : {Layout{}, Layout{8 + 5, 8 + 3}})
            EXPECT_EQ(row.key() + "," + found->second, row.key() + "," + checksum(row.computed(space, layout)))
                << "padding " << layout.padding;
    }
}

INSTANTIATE_TEST_SUITE_P(, GoldenReference, testing::ValuesIn(MODULES),
                         [](const auto &test) { return std::string(test.param.name); });
INSTANTIATE_TEST_SUITE_P(, Golden, testing::Combine(testing::ValuesIn(MODULES), testing::Values(CUS_HOST, CUS_DEVICE)),
                         [](const auto &test) {
                             const bool device = std::get<1>(test.param) == CUS_DEVICE;
                             return (device ? "cuda_" : "host_") + std::string(std::get<0>(test.param).name);
                         });

} // namespace
} // namespace golden
