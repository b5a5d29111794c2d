// Several devices: objects of several modules on all GPUs at once.
#include "support.hpp"

#include "common/many_devices.hpp"

#include "cusight/cusight.hpp"

namespace {

using sample::Dealer;
using sample::Device;

using Devices = std::vector<Device>; // CPUs, unless they are chosen

// ---- All GPUs ----------------------------------------------------------------------------------------------------------

class MultiDevice : public testing::Test {
  protected:
    void SetUp() override {
        int count = 0;
        CUS_ASSERT_OK(cusDeviceCount(&count));
        if (count < 2)
            GTEST_SKIP() << count << " GPUs on this machine, and this test needs several";
        devices = sample::chooseDevices("cuda:all");
    }
    std::vector<Device> devices;
};

// The results of several modules for one random scene, as bytes.
std::vector<uint8_t> scene(cusSpace space, uint64_t seed) {
    std::mt19937_64 random(seed);
    const int rows = 180, cols = 241;
    const size_t n = static_cast<size_t>(rows) * cols;
    std::vector<uint8_t> a = support::randomBytes(3 * n, random), b = support::randomBytes(3 * n, random);
    cusStream stream = nullptr;
    if (space == CUS_DEVICE)
        CUS_EXPECT_OK(cusStreamCreate(&stream));
    std::vector<uint8_t> result;
    const auto add = [&](const cusMat &mat) {
        if (stream)
            CUS_EXPECT_OK(cusStreamSynchronize(stream));
        const std::vector<uint8_t> bytes = support::elements(mat);
        result.insert(result.end(), bytes.begin(), bytes.end());
    };
    {
        support::TestMat first(rows, cols, CUS_8UC3, space, {}, a.data()),
            second(rows, cols, CUS_8UC3, space, {}, b.data());
        support::Mat heat;
        CUS_EXPECT_OK(cusHeatmap(&first.mat, &second.mat, &heat, nullptr, stream));
        add(heat);
    }
    {
        support::TestMat left(rows, cols, CUS_8UC1, space, {}, a.data()), right(rows, cols, CUS_8UC1, space, {}, b.data());
        support::Mat sum, elevation, lines;
        CUS_EXPECT_OK(cusIntegral(&left.mat, &sum, nullptr, nullptr, stream));
        add(sum);
        cusContourMapper *mapper = nullptr;
        const cusStereoOptions options = cusStereoClassic();
        CUS_EXPECT_OK(cusContourMapperCreate(&mapper, rows, cols, CUS_8UC1, space, &options));
        CUS_EXPECT_OK(cusContourMap(mapper, &left.mat, &right.mat, &elevation, &lines, stream));
        add(lines);
        cusContourMapperDestroy(mapper);
        support::TestMat templ(20, 23, CUS_8UC1, space, {}, a.data() + 777);
        support::Owned<cusMatcherDestroy> matcher;
        cusMatcherOptions options_of = cusMatcherDefaults();
        options_of.method = CUS_MATCH_SQDIFF;
        CUS_EXPECT_OK(cusMatcherCreate(&matcher, &templ.mat, 1, rows, cols, &options_of, stream));
        CUS_EXPECT_OK(cusMatcherRun(matcher, &left.mat, nullptr, stream));
        cusMatch match = {};
        int found = 0;
        CUS_EXPECT_OK(cusMatcherGet(matcher, 0, &match, 1, &found, stream));
        for (const int value : {found, match.x, match.y})
            for (int k = 0; k < 4; ++k)
                result.push_back(static_cast<uint8_t>(value >> (8 * k)));
    }
    cusStreamDestroy(stream);
    return result;
}

// Scenes dealt to the devices, whose objects their own threads use, are those of the CPU.
void expectScenesOfTheCpu(const std::vector<Device> &devices, size_t scenes_each) {
    struct Job {
        uint64_t seed = 0;
        std::vector<uint8_t> result;
    };
    std::vector<Job> jobs(scenes_each * devices.size());
    std::vector<std::vector<uint8_t>> expected;
    for (size_t i = 0; i < jobs.size(); ++i) {
        jobs[i].seed = support::seed() + i;
        expected.push_back(scene(CUS_HOST, jobs[i].seed));
    }
    Dealer<Job *> dealer(devices, scenes_each, [&](size_t w) {
        return [&, w](Job *job) {
            int current = devices[w].index;
            if (devices[w].space == CUS_DEVICE)
                CUS_EXPECT_OK(cusDeviceGet(&current));
            EXPECT_EQ(current, devices[w].index);
            job->result = scene(devices[w].space, job->seed);
        };
    });
    for (Job &job : jobs)
        ASSERT_TRUE(dealer.deal(&job));
    dealer.finish();
    Job *job = nullptr;
    for (size_t i = 0; i < jobs.size(); ++i) {
        ASSERT_TRUE(dealer.next(job));
        ASSERT_EQ(job, &jobs[i]);
        EXPECT_TRUE(job->result == expected[i]) << "scene " << i << " on device " << i % devices.size();
        EXPECT_TRUE(i == 0 || expected[i] != expected[i - 1]);
    }
    EXPECT_FALSE(dealer.next(job));
}

TEST(Dealer, ModulesOnThreadsOfTheCpu) {
    expectScenesOfTheCpu(Devices(3), 2);
}

TEST_F(MultiDevice, ModulesOnAllGpusFromTheirOwnThreadsEqualTheCpu) {
    expectScenesOfTheCpu(devices, 6);
}

} // namespace
