// Recordings from strangers: what must not be opened, and what must not cost memory or time whatever a file claims.
#include "eventio/hdf5_files.hpp"

#include "eventio/hdf5/codec.h"
#include "lzf.h"

#include <chrono>
#include <functional>

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>

using namespace eventio_test;

namespace {

// What opening and reading a recording cost, in a process of its own.
struct Cost {
    int status = -1;    // the first that is not CUS_OK; -1: the process died or was stopped after 20 s
    long megabytes = 0; // by which resident memory grew
    double seconds = 0;
    size_t events = 0;
    std::string message;
};

struct Outcome {
    int status;
    size_t events;
    long kilobytes;
    char message[256];
};

Outcome readInChild(const std::string &path, const cusEventReaderOptions &options) {
    Outcome outcome = {CUS_OK, 0, 0, ""};
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    cusEventReader *reader = nullptr;
    outcome.status = cusEventReaderOpen(&reader, path.c_str(), &options);
    // Few at a time: OpenMP's threads do not survive fork.
    constexpr size_t N = 4096;
    static uint16_t x[N], y[N];
    static uint8_t p[N];
    static int64_t t[N];
    for (size_t count = N; outcome.status == CUS_OK && count == N; outcome.events += count)
        outcome.status = cusEventReaderRead(reader, N, x, y, p, t, &count);
    snprintf(outcome.message, sizeof outcome.message, "%s", outcome.status ? cusLastError() : "");
    cusEventReaderClose(reader);
    getrusage(RUSAGE_SELF, &after);
    outcome.kilobytes = after.ru_maxrss - before.ru_maxrss;
    return outcome;
}

// Uses up memory until `left` bytes remain for this process.
void useUpMemory(size_t left) {
    const rlimit none = {1 << 20, 1 << 20};
    malloc_trim(0);
    mallopt(M_MMAP_MAX, 0); // what is freed stays in the heap
    mallopt(M_TRIM_THRESHOLD, -1);
    void *reserve = malloc(left + 1), **volatile taken = nullptr; // volatile: GCC 16 leaves out blocks that nobody uses
    *static_cast<volatile char *>(reserve) = 1;
    setrlimit(RLIMIT_AS, &none);
    for (size_t size = 1 << 20; size >= 16;) {
        void **block = static_cast<void **>(malloc(size));
        if (block) {
            *block = taken;
            taken = block;
        } else {
            size /= 2;
        }
    }
    free(reserve);
}

// memory: bytes that the process may have in addition, 0: no limit.
Cost cost(const std::string &path, cusEventReaderOptions options = cusEventReaderDefaults(), size_t memory = 0) {
    options.threads = 1;
    Cost result;
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const auto start = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        if (memory)
            useUpMemory(memory);
        const Outcome outcome = readInChild(path, options);
        _exit(write(ends[1], &outcome, sizeof outcome) == sizeof outcome ? 0 : 1);
    }
    close(ends[1]);
    Outcome outcome;
    if (read(ends[0], &outcome, sizeof outcome) == sizeof outcome)
        result = {outcome.status, outcome.kilobytes / 1024, 0, outcome.events, outcome.message};
    close(ends[0]);
    waitpid(child, nullptr, 0);
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
}

void expectCheap(const Cost &c, double most_seconds = 2) {
    if (!MEASURED)
        return;
    EXPECT_LT(c.megabytes, 64);
    EXPECT_LT(c.seconds, most_seconds);
}

// Reading fails with this status and message, and costs little.
Cost expectRefused(const std::string &path, cusStatus status, const std::string &message,
                   const cusEventReaderOptions &options = cusEventReaderDefaults()) {
    const Cost c = cost(path, options);
    EXPECT_EQ(c.status, status) << c.message;
    EXPECT_NE(c.message.find(message), std::string::npos) << c.message;
    expectCheap(c);
    return c;
}

std::string hostile(const char *name) {
    const char *folder = getenv("CUSIGHT_TEST_HOSTILE");
    const std::string path = folder ? std::string(folder) + "/" + name : "";
    return !path.empty() && access(path.c_str(), R_OK) == 0 ? path : "";
}
#define NEEDS_HOSTILE(path) \
    if ((path).empty())     \
    GTEST_SKIP() << "the file is not in the folder CUSIGHT_TEST_HOSTILE"

TEST(EventHostile, FileBx) {
    const std::string path = hostile("bx.raw");
    NEEDS_HOSTILE(path);
    cusStatus status = CUS_OK;
    const Events got = Reader(path).all(70000, &status);
    EXPECT_EQ(status, CUS_ERROR_FORMAT);
    EXPECT_TRUE(std::is_sorted(got.x.begin(), got.x.end()));
}

TEST(EventHostile, FileMut875) {
    const std::string path = hostile("mut875.h5");
    NEEDS_HOSTILE(path);
    const Cost c = cost(path);
    EXPECT_TRUE(c.status == CUS_ERROR_FORMAT || c.status == CUS_ERROR_TRUNCATED) << c.status << c.message;
    expectCheap(c, 1);
}

TEST(EventHostile, FileBombx2) {
    const std::string path = hostile("bombx2.h5");
    NEEDS_HOSTILE(path);
    expectRefused(path, CUS_ERROR_UNSUPPORTED, "");
}

// Each ends libhdf5 1.10 with a signal, or makes it report a lack of memory.
TEST(EventHostile, FilesThatCrashLibhdf5) {
    const auto check = [](const std::string &path) {
        NEEDS_HOSTILE(path);
        const Cost c = cost(path);
        EXPECT_EQ(c.status, CUS_ERROR_FORMAT) << path << c.message;
        expectCheap(c, 1);
    };
    for (const char *name : {"bthd_crash.h5", "pline_overread.h5", "pline_new.h5"})
        check(hostile(name));
}

#ifdef CUSIGHT_HAVE_HDF5

// ---- Files made with libhdf5 ----

// Each dataset that the reader opens is stored in each way that leads out of the file. Links and storage may name pipes: opening one would
// block for ever.
TEST(EventHostile, NothingOutsideTheFileIsOpened) {
    Folder at;
    const std::string secret = at / "secret", pipe = at / "pipe", other = at / "other.h5", path = at / "r.h5";
    save(secret, Bytes(9000, 0x11));
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    writeRecording(other, true, "", plain);
    const hid_t file = H5Fopen(other.c_str(), H5F_ACC_RDWR, NO);
    plain(file, "t_offset", 1);
    plain(file, "resolution", 2);
    H5Fclose(file);
    const auto external = [&](const std::string &target) {
        return [target](hid_t group, const std::string &name, hsize_t n) {
            const hid_t how = contiguous();
            H5Pset_external(how, target.c_str(), 0, n * H5Tget_size(typeOf(name)));
            H5Dclose(addDataset(group, name, how, n, false));
        };
    };
    const auto virtually = [&](const std::string &target, bool unlimited) {
        return [target, unlimited](hid_t group, const std::string &name, hsize_t n) {
            const hid_t how = contiguous();
            const hsize_t zero = 0, one = 1, most = unlimited ? H5S_UNLIMITED : n;
            const hid_t space = H5Screate_simple(1, &n, &most), source = H5Screate_simple(1, &n, &most);
            if (unlimited) {
                H5Sselect_hyperslab(space, H5S_SELECT_SET, &zero, nullptr, &most, &one);
                H5Sselect_hyperslab(source, H5S_SELECT_SET, &zero, nullptr, &most, &one);
                const hsize_t all = H5S_UNLIMITED, single = 1;
                H5Sselect_hyperslab(space, H5S_SELECT_SET, &zero, nullptr, &single, &all);
                H5Sselect_hyperslab(source, H5S_SELECT_SET, &zero, nullptr, &single, &all);
            }
            const std::string inside = (n == N ? "/events/" : "/") + name;
            H5Pset_virtual(how, space, target.c_str(), inside.c_str(), source);
            const hid_t set = H5Dcreate2(group, name.c_str(), typeOf(name), space, NO, how, NO);
            EXPECT_GT(set, 0);
            H5Dclose(set);
            H5Sclose(source);
            H5Sclose(space);
            H5Pclose(how);
        };
    };
    const auto link = [&](const std::string &target) {
        return [target](hid_t group, const std::string &name, hsize_t n) {
            const std::string inside = (n == N ? "/events/" : "/") + name;
            if (target.empty())
                H5Lcreate_soft("/elsewhere", group, name.c_str(), NO, NO);
            else
                H5Lcreate_external(target.c_str(), inside.c_str(), group, name.c_str(), NO, NO);
        };
    };
    const std::map<std::string, Maker> ways = {{"external", external(secret)},
                                               {"external pipe", external(pipe)},
                                               {"virtual", virtually(other, false)},
                                               {"virtual pipe", virtually(pipe, false)},
                                               {"unlimited", virtually(other, true)},
                                               {"unlimited pipe", virtually(pipe, true)},
                                               {"soft link", link("")},
                                               {"external link", link(other)},
                                               {"external link to a pipe", link(pipe)}};
    for (const auto &[way, make] : ways) {
        for (const char *name : {"x", "y", "p", "t", "t_offset", "resolution"}) {
            SCOPED_TRACE(way + " " + name);
            writeRecording(path, std::string(name) != "resolution", name, make);
            EXPECT_EQ(expectRefused(path, CUS_ERROR_FORMAT, name).events, 0u);
        }
        writeRecording(path, false, "ms_map_idx", make); // never opened
        EXPECT_EQ(cost(path).status, CUS_OK) << way;
    }
}

TEST(EventHostile, GroupsThatAreLinks) {
    Folder at;
    const std::string pipe = at / "pipe", other = at / "other.h5", path = at / "r.h5";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    writeRecording(other, false, "", plain);
    const auto link = [](hid_t at_group, const std::string &target, const char *name) {
        if (target.empty())
            H5Lcreate_soft("/elsewhere", at_group, name, NO, NO);
        else
            H5Lcreate_external(target.c_str(), "/prophesee", at_group, name, NO, NO);
    };
    for (const std::string &target : {other, pipe, std::string()}) {
        writeRecording(path, false, "ms_map_idx",
                       [&](hid_t group, const std::string &, hsize_t) { link(group, target, "calib"); });
        SCOPED_TRACE(target);
        expectRefused(path, CUS_ERROR_FORMAT, "the group calib is a soft or external link");
        for (const char *name : {"/prophesee", "/prophesee/left", "/events"}) {
            const hid_t file = createHdf5(path);
            if (std::string(name) == "/prophesee/left")
                H5Gclose(H5Gcreate2(file, "/prophesee", NO, NO, NO));
            link(file, target, name);
            H5Fclose(file);
            expectRefused(path, CUS_ERROR_FORMAT, "is a soft or external link");
        }
    }
}

// The names of a group take megabytes, of which the search reads a few.
TEST(EventHostile, EnormousGroups) {
    Folder at;
    const hid_t file = createHdf5(at / "r.h5");
    for (int i = 0; i < 5000; ++i)
        H5Lcreate_soft("/nowhere", file, (std::to_string(i) + std::string(1000, 'n')).c_str(), NO, NO);
    H5Fclose(file);
    expectRefused(at / "r.h5", CUS_ERROR_FORMAT, "neither /prophesee nor /events nor /CD/events");
}

// A group whose names claim to fill 12 GB, in a file of some kilobytes.
TEST(EventHostile, HeapLargerThanTheFile) {
    if (!MEASURED)
        GTEST_SKIP() << "sanitizers reserve address space";
    Folder at;
    writeDsec(at / "r.h5", plain);
    Bytes bytes = load(at / "r.h5");
    const std::string name = "HEAP";
    const auto heap = std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
    ASSERT_LT(heap - bytes.begin() + 16, std::ptrdiff_t(bytes.size()));
    heap[12] = 3; // the fifth byte of the size
    save(at / "r.h5", bytes);
    const Cost c = cost(at / "r.h5", cusEventReaderDefaults(), 64 << 20);
    EXPECT_EQ(c.status, CUS_ERROR_FORMAT) << c.message;
}

// t_offset and the resolution have the type and size that the formats say: times and sensors are never guessed.
TEST(EventHostile, SmallDatasetsOfOtherTypes) {
    Folder at;
    for (const char *name : {"t_offset", "resolution"})
        for (const int way : {0, 1, 2}) {
            writeRecording(at / "r.h5", std::string(name) == "t_offset", name,
                           [&](hid_t group, const std::string &n, hsize_t count) {
                               count += way == 0;
                               const hid_t type = way == 1 ? H5T_IEEE_F64LE : H5T_STD_I64LE;
                               const hid_t space = way == 2 ? H5Screate(H5S_NULL) : H5Screate_simple(1, &count, nullptr);
                               H5Dclose(H5Dcreate2(group, n.c_str(), type, space, NO, NO, NO));
                               H5Sclose(space);
                           });
            expectRefused(at / "r.h5", CUS_ERROR_FORMAT, "has another type or size, expected ");
        }
}

// Hard links, compact and contiguous datasets are within the file.
TEST(EventHostile, DatasetsWithinTheFileAreRead) {
    Folder at;
    const std::string path = at / "r.h5";
    for (const char *special : {"x", "t", "t_offset", "resolution"})
        for (const int way : {0, 1, 2}) {
            SCOPED_TRACE(std::string(special) + " " + std::to_string(way));
            const bool dsec = std::string(special) != "resolution";
            writeRecording(path, dsec, special, [&](hid_t group, const std::string &name, hsize_t n) {
                if (way == 2) {
                    plain(group, "named before", n == N ? n : 1);
                    H5Dclose(addDataset(group, "original_" + name, contiguous(), 1, false));
                    const hid_t space = H5Screate_simple(1, &n, nullptr);
                    const hid_t set = H5Dcreate_anon(group, typeOf(name), space, NO, NO);
                    H5Dwrite(set, typeOf(name), H5S_ALL, H5S_ALL, NO, valuesOf(name, n).data());
                    H5Olink(set, group, "first name", NO, NO);
                    H5Lcreate_hard(group, "first name", group, name.c_str(), NO, NO);
                    H5Dclose(set);
                    H5Sclose(space);
                } else {
                    H5Dclose(addDataset(group, name, withLayout(way ? H5D_COMPACT : H5D_CONTIGUOUS), n));
                }
            });
            Reader r(path);
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            const Events e = r.all();
            ASSERT_EQ(e.size(), N);
            EXPECT_EQ(e.x[999], 199);
            EXPECT_EQ(e.t[999], 999);
            if (!dsec) {
                EXPECT_EQ(r.info.width, 600);
                EXPECT_EQ(r.info.height, 601);
            }
        }
}

TEST(EventHostile, SmallDatasetsAreNotChunked) {
    Folder at;
    for (const char *name : {"t_offset", "resolution"}) {
        writeRecording(at / "r.h5", std::string(name) == "t_offset", name,
                       [](hid_t group, const std::string &n, hsize_t count) {
                           const hid_t how = withLayout(H5D_CHUNKED, hsize_t(1) << 28); // 2 GiB for one number
                           H5Pset_deflate(how, 9);
                           H5Pset_deflate(how, 9);
                           H5Dclose(addDataset(group, n, how, count, false));
                       });
        expectRefused(at / "r.h5", CUS_ERROR_FORMAT, "stored in chunks, expected contiguous or compact");
    }
}

TEST(EventHostile, OneCompressionAtMost) {
    Folder at;
    const int D = H5Z_FILTER_DEFLATE, S = H5Z_FILTER_SHUFFLE, F = H5Z_FILTER_FLETCHER32;
    for (const auto &good :
         std::vector<std::vector<int>>{{}, {D}, {S, D}, {S, D, F}, {F, S, D}, {D, F}, {S, F}, {F, D}, {S}, {F}}) {
        for (const char *name : {"x", "y", "p", "t"}) {
            writeRecording(at / "r.h5", true, name, filtered(good, 300));
            Reader r(at / "r.h5");
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            const Events e = r.all(170);
            ASSERT_EQ(e.size(), N);
            for (size_t i = 0; i < N; ++i)
                ASSERT_TRUE(e.x[i] == i % 400 && e.y[i] == i % 400 && e.p[i] == i % 2 && e.t[i] == int64_t(i)) << i << name;
        }
    }
    for (const auto &bad :
         std::vector<std::vector<int>>{{D, D}, {D, S, D}, {S, S}, {F, F}, {D, D, D}, {S, D, F, S, D}, {D, F, D}}) {
        writeRecording(at / "r.h5", true, "x", filtered(bad, 300));
        expectRefused(at / "r.h5", CUS_ERROR_UNSUPPORTED, "expected at most one of deflate, LZF, Blosc, LZ4, zstd and ECF");
    }
}

// Chunks of 8 KB and 8 MB whose stream gives 96 MB: libhdf5's filter would follow it to the end.
TEST(EventHostile, StreamsLongerThanTheChunk) {
    Folder at;
    const std::string bomb = at / "bomb.h5", path = at / "r.h5";
    const hsize_t large = 12000000;
    hid_t file = createHdf5(bomb);
    hid_t how = withLayout(H5D_CHUNKED, large);
    H5Pset_deflate(how, 9);
    const hid_t space = H5Screate_simple(1, &large, nullptr);
    hid_t set = H5Dcreate2(file, "t", H5T_STD_I64LE, space, NO, how, NO);
    const std::vector<int64_t> zeros(large);
    H5Dwrite(set, H5T_STD_I64LE, H5S_ALL, H5S_ALL, NO, zeros.data());
    hsize_t at_zero = 0, stored = 0;
    H5Dget_chunk_storage_size(set, &at_zero, &stored);
    Bytes stream(stored);
    uint32_t mask;
    H5Dread_chunk(set, NO, &at_zero, &mask, stream.data());
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(how);
    H5Fclose(file);
    EXPECT_LT(stored, 500000u);
    for (const hsize_t chunk : {hsize_t(1000), hsize_t(1000000)}) {
        writeRecording(path, true, "t", [&](hid_t group, const std::string &name, hsize_t) {
            const hid_t chunks = withLayout(H5D_CHUNKED, chunk);
            H5Pset_deflate(chunks, 9);
            const hid_t bad = addDataset(group, name, chunks, N, false);
            const hsize_t first = 0;
            H5Dwrite_chunk(bad, NO, 0, &first, stream.size(), stream.data());
            H5Dclose(bad);
        });
        expectRefused(path, CUS_ERROR_FORMAT, "");
    }
}

// Chunks of 2 GiB, of which the file holds a few bytes.
TEST(EventHostile, EnormousChunks) {
    Folder at;
    for (const char *name : {"x", "p", "t"})
        for (const bool stored : {false, true}) {
            writeRecording(at / "r.h5", true, name, [&](hid_t group, const std::string &n, hsize_t) {
                const hid_t how = withLayout(H5D_CHUNKED, (hsize_t(1) << 31) / H5Tget_size(typeOf(n)));
                H5Pset_deflate(how, 9);
                const hid_t set = addDataset(group, n, how, N, false);
                const hsize_t first = 0;
                const Bytes few(100, 0x78);
                if (stored)
                    H5Dwrite_chunk(set, NO, 0, &first, few.size(), few.data());
                H5Dclose(set);
            });
            expectRefused(at / "r.h5", CUS_ERROR_CAPACITY, "but the option max_chunk is 67108864");
            cusEventReaderOptions options = cusEventReaderDefaults();
            options.max_chunk = UINT32_MAX;
            expectRefused(at / "r.h5", stored ? CUS_ERROR_CAPACITY : CUS_ERROR_TRUNCATED,
                          stored ? "but the option max_memory" : "", options);
        }
}

// Good recordings with large chunks are read within the memory allowed, with any number of threads.
TEST(EventHostile, MaxMemoryIsKept) {
    Folder at;
    const hsize_t n = 2000000;
    const auto make = [](hid_t group, const std::string &name, hsize_t count) {
        const hid_t how = withLayout(H5D_CHUNKED, 500000); // t: 4 MB a chunk
        H5Pset_shuffle(how);
        H5Pset_deflate(how, 1);
        H5Dclose(addDataset(group, name, how, count));
    };
    writeDsec(at / "r.h5", make, n);
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.max_memory = size_t(1) << 26;
    const Cost c = cost(at / "r.h5", options);
    EXPECT_EQ(c.status, CUS_OK) << c.message;
    EXPECT_EQ(c.events, n);
    expectCheap(c, 20);
    options.threads = 16;
    Reader r(at / "r.h5", options);
    EXPECT_EQ(r.all(n).size(), n);
}

// A deflated chunk of 64 MiB with 64 MiB of memory.
TEST(EventHostile, MaxMemoryThatIsTooSmall) {
    Folder at;
    writeRecording(at / "r.h5", true, "t", [](hid_t group, const std::string &name, hsize_t) {
        const hid_t how = withLayout(H5D_CHUNKED, hsize_t(1) << 23);
        H5Pset_deflate(how, 9);
        H5Dclose(addDataset(group, name, how));
    });
    EXPECT_EQ(cost(at / "r.h5").status, CUS_OK);
    cusEventReaderOptions options = cusEventReaderDefaults();
    options.max_memory = size_t(1) << 26;
    const Cost c = expectRefused(at / "r.h5", CUS_ERROR_CAPACITY, "a chunk of t needs ", options);
    EXPECT_NE(c.message.find("the option max_memory"), std::string::npos) << c.message;
}

// What h5py writes with compression="lzf", fletcher32=True (and shuffle); also in the other orders.
TEST(EventHostile, LzfWithChecksums) {
    Folder at;
    const int L = 32000, S = H5Z_FILTER_SHUFFLE, F = H5Z_FILTER_FLETCHER32;
    for (const auto &filters : std::vector<std::vector<int>>{{F, L}, {F, S, L}, {L, F}, {S, L, F}, {S, F, L}})
        for (const bool spoiled : {false, true}) {
            writeRecording(at / "r.h5", true, "t", [&](hid_t group, const std::string &name, hsize_t n) {
                const hid_t how = withLayout(H5D_CHUNKED, n);
                for (const int filter : filters)
                    H5Pset_filter(how, filter, H5Z_FLAG_OPTIONAL, 0, nullptr);
                const hid_t set = addDataset(group, name, how, n, false);
                Bytes bytes = valuesOf(name, n);
                for (const int filter : filters) {
                    Bytes next(bytes.size());
                    if (filter == L) {
                        next.resize(cusi_lzfEncode(bytes.data(), bytes.size(), next.data()));
                        ASSERT_FALSE(next.empty());
                    } else if (filter == S) {
                        for (size_t i = 0; i < bytes.size() / 8; ++i)
                            for (size_t b = 0; b < 8; ++b)
                                next[b * (bytes.size() / 8) + i] = bytes[8 * i + b];
                        std::copy(bytes.begin() + long(bytes.size() / 8 * 8), bytes.end(),
                                  next.begin() + long(bytes.size() / 8 * 8));
                    } else {
                        next = bytes;
                        reference::append(next, eventio_fletcher32(bytes.data(), bytes.size()) ^ (spoiled ? 4u : 0u), 4);
                    }
                    bytes = next;
                }
                const hsize_t first = 0;
                H5Dwrite_chunk(set, NO, 0, &first, bytes.size(), bytes.data());
                H5Dclose(set);
            });
            Reader r(at / "r.h5");
            ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
            cusStatus status = CUS_OK;
            const Events e = r.all(700, &status);
            EXPECT_EQ(status, spoiled ? CUS_ERROR_FORMAT : CUS_OK) << cusLastError();
            EXPECT_EQ(e.size(), spoiled ? 0 : N);
            for (size_t i = 0; i < e.size(); ++i)
                ASSERT_EQ(e.t[i], int64_t(i));
        }
}

// Integers of every width, sign and byte order, in every layout.
TEST(EventHostile, UnusualTypes) {
    Folder at;
    for (const hid_t type : {H5T_STD_I8LE, H5T_STD_U8LE, H5T_STD_I16LE, H5T_STD_I16BE, H5T_STD_U16BE, H5T_STD_I32LE,
                             H5T_STD_U32BE, H5T_STD_I64BE, H5T_STD_U64LE})
        for (const char *special : {"x", "p", "t"})
            for (const H5D_layout_t layout : {H5D_COMPACT, H5D_CONTIGUOUS, H5D_CHUNKED}) {
                const size_t n = 100; // fits all types
                const std::string path = at / "r.h5";
                writeRecording(path, true, special, [&](hid_t group, const std::string &name, hsize_t) {
                    const hsize_t size = n;
                    const hid_t how = withLayout(layout, 30), space = H5Screate_simple(1, &size, nullptr);
                    if (layout == H5D_CHUNKED)
                        H5Pset_deflate(how, 1);
                    const hid_t set = H5Dcreate2(group, name.c_str(), type, space, NO, how, NO);
                    H5Dwrite(set, typeOf(name), H5S_ALL, H5S_ALL, NO, valuesOf(name, n).data());
                    H5Dclose(set);
                    H5Sclose(space);
                    H5Pclose(how);
                });
                Reader r(path);
                ASSERT_EQ(r.opened, CUS_OK) << cusLastError();
                cusStatus status = CUS_OK; // the other columns are longer
                const Events e = r.all(70, &status);
                EXPECT_EQ(status, CUS_ERROR_TRUNCATED);
                ASSERT_EQ(e.size(), n) << special << " " << int(layout) << " " << H5Tget_size(type) << cusLastError();
                for (size_t i = 0; i < n; ++i)
                    ASSERT_TRUE(e.x[i] == i && e.p[i] == i % 2 && e.t[i] == int64_t(i)) << special << i;
            }
}

// Many attributes on everything, none of which is read; and many chunks, which must be found in less than a walk through all of
// them for each.
TEST(EventHostile, ManyAttributesAndChunks) {
    Folder at;
    const auto decorate = [](hid_t object) {
        const hid_t scalar = H5Screate(H5S_SCALAR);
        for (int i = 0; i < 3000; ++i)
            H5Aclose(H5Acreate2(object, std::to_string(i).c_str(), H5T_STD_I64LE, scalar, NO, NO));
        H5Sclose(scalar);
    };
    writeRecording(at / "r.h5", true, "x", [&](hid_t group, const std::string &name, hsize_t n) {
        const hid_t set = addDataset(group, name, withLayout(H5D_CHUNKED, 1), n);
        decorate(set);
        decorate(group);
        H5Dclose(set);
    });
    const Cost c = cost(at / "r.h5");
    EXPECT_EQ(c.status, CUS_OK) << c.message;
    EXPECT_EQ(c.events, N);
    expectCheap(c);
    writeDsec(at / "m.h5", filtered({}, 1), 10000);
    const Cost many = cost(at / "m.h5");
    EXPECT_EQ(many.events, 10000u) << many.message;
    expectCheap(many, 5);
}

// The header may claim any end of the file: no memory is spent on it, and the events that exist are read.
TEST(EventHostile, ClaimedEndOfFile) {
    Folder at;
    for (const bool latest : {false, true}) {
        const std::string path = at / "r.h5";
        writeDsec(path, plain, N, latest ? H5F_LIBVER_LATEST : H5F_LIBVER_EARLIEST);
        Bytes bytes = load(path);
        if (!latest) { // version 0, without a checksum: the end of the file is at byte 40
            ASSERT_EQ(bytes[8], 0);
            bytes[40 + 5] = 0x40;
            save(path, bytes);
            const Cost c = cost(path);
            EXPECT_EQ(c.status, CUS_OK) << c.message;
            EXPECT_EQ(c.events, N);
            expectCheap(c, 1);
        }
        // Every byte of the header and of the first groups, with large values.
        for (size_t i = 0; i < bytes.size() && i < 1500; ++i) {
            Bytes changed = bytes;
            changed[i] = uint8_t(i % 2 ? 0x7f : 0xff);
            Reader r(changed);
            cusStatus status = CUS_OK;
            if (r.opened == CUS_OK)
                r.all(1000, &status);
        }
    }
}

// Out of memory gives NO_MEMORY wherever it happens.
TEST(EventHostile, OutOfMemoryIsNotDamage) {
    if (!MEASURED)
        GTEST_SKIP() << "sanitizers reserve address space";
    // In a process that has not run other tests: each step uses up all memory, and a large heap takes long to use up.
    if (!getenv("CUSIGHT_TEST_FRESH_PROCESS")) {
        const int ended = std::system("CUSIGHT_TEST_FRESH_PROCESS=1 \"$(readlink /proc/$PPID/exe)\" --gtest_brief=1 "
                                      "--gtest_filter=EventHostile.OutOfMemoryIsNotDamage");
        EXPECT_EQ(ended, 0);
        return;
    }
    int refused = 0, good = 0;
    for (const char *name : {"m3ed_gzip.h5", "m3ed_lzf.h5", "m3ed_contiguous.h5"})
        for (size_t kib = 700; kib < 40000; kib += kib / 16) {
            const Cost c = cost(fixture(name), cusEventReaderDefaults(), kib * 1024);
            EXPECT_TRUE(c.status == CUS_OK || c.status == CUS_ERROR_NO_MEMORY)
                << name << " with " << kib << " KiB: " << c.status << " " << c.message << " after " << c.seconds << " s";
            refused += c.status == CUS_ERROR_NO_MEMORY;
            good += c.status == CUS_OK;
        }
    EXPECT_GT(good, 0);
    EXPECT_GT(refused, 0);
}

#endif

} // namespace
