#include "common/many_devices.hpp"

#include "cusight/cusight.hpp"

#include <algorithm>
#include <new>

#ifdef CUSIGHT_HAVE_OPENMP
#include <omp.h>
#endif

namespace sample {

namespace {

bool isNumber(const std::string &text, size_t low, size_t high) {
    return !text.empty() && text.size() < 4 && text.find_first_not_of("0123456789") == std::string::npos &&
           std::stoul(text) >= low && std::stoul(text) <= high;
}

// Splits the text at commas; "" gives one empty word.
std::vector<std::string> words(const std::string &text) {
    std::vector<std::string> found(1);
    for (const char c : text)
        if (c == ',')
            found.emplace_back();
        else
            found.back() += c;
    return found;
}

bool beginsWith(const std::string &text, const char *head) {
    return text.rfind(head, 0) == 0;
}

// Returns the number of GPUs. Throws Stop if there is none.
int countGpus(const std::string &text) {
    int count = 0;
    cusight::check(cusDeviceCount(&count));
    if (count == 0)
        throw Stop(DEVICE, "--device " + text +
                               ": no usable GPU (no device, no driver, or built without CUDA); "
                               "--device cpu always works");
    return count;
}

Device gpu(const std::string &text, int index, int count) {
    if (index >= count)
        throw Stop(DEVICE, "--device " + text + ": expected cuda:0 to cuda:" + std::to_string(count - 1));
    Device device;
    cusDeviceInfo info;
    cusight::check(cusDeviceQuery(index, &info));
    device.space = CUS_DEVICE;
    device.index = index;
    device.name = "cuda:" + std::to_string(index) + ", " + info.name;
    return device;
}

std::vector<Device> gpus(const std::string &text) {
    const int count = countGpus(text);
    std::vector<Device> devices;
    if (text == "cuda:all") {
        for (int i = 0; i < count && devices.size() < MAX_DEVICES; ++i)
            devices.push_back(gpu(text, i, count));
    } else {
        for (const std::string &word : words(text.size() > 5 ? text.substr(5) : "0"))
            devices.push_back(gpu(text, std::stoi(word), count));
    }
    return devices;
}

} // namespace

bool isDeviceList(const std::string &text) {
    if (text == "auto" || text == "cpu" || text == "cuda" || text == "cuda:all")
        return true;
    if (beginsWith(text, "cpu:"))
        return isNumber(text.substr(4), 1, MAX_DEVICES);
    if (!beginsWith(text, "cuda:"))
        return false;
    const std::vector<std::string> indices = words(text.substr(5));
    return indices.size() <= MAX_DEVICES &&
           std::all_of(indices.begin(), indices.end(), [](const std::string &word) { return isNumber(word, 0, 999); });
}

std::vector<Device> chooseDevices(const std::string &text) {
    int count = 0;
    cusight::check(cusDeviceCount(&count));
    std::vector<Device> devices;
    if (beginsWith(text, "cuda"))
        devices = gpus(text);
    else if (text == "auto" && count > 0)
        devices = gpus("cuda");
    if (!devices.empty()) {
        cusight::check(cusDeviceSet(devices.front().index));
        return devices;
    }
    Device cpu;
    cpu.name = "CPU, " + std::to_string(std::thread::hardware_concurrency()) + " threads";
    return std::vector<Device>(beginsWith(text, "cpu:") ? std::stoul(text.substr(4)) : 1, cpu);
}

Device chooseDevice(const std::string &text) {
    return chooseDevices(text).front();
}

std::string deviceNames(const std::vector<Device> &devices) {
    std::string names = devices.front().name;
    if (devices.front().space == CUS_HOST)
        return names + (devices.size() > 1 ? ", " + std::to_string(devices.size()) + " workers" : "");
    for (size_t i = 1; i < devices.size(); ++i)
        names += "; " + devices[i].name;
    return names;
}

void enterDevice(const Device &device, size_t workers) {
    if (device.space == CUS_DEVICE)
        cusight::check(cusDeviceSet(device.index));
#ifdef CUSIGHT_HAVE_OPENMP
    else if (workers > 1)
        omp_set_num_threads(std::max(1, omp_get_max_threads() / static_cast<int>(workers)));
#else
    (void)workers;
#endif
}

void rethrow(const std::exception_ptr &error, const Device &device, size_t workers) {
    if (workers < 2)
        std::rethrow_exception(error);
    const std::string name = device.space == CUS_DEVICE ? "cuda:" + std::to_string(device.index) + ": " : "";
    try {
        std::rethrow_exception(error);
    } catch (const Stop &stop) {
        if (stop.code() != FAILED && stop.code() != DEVICE)
            throw;
        throw Stop(stop.code(), name + stop.what());
    } catch (const cusight::Error &failed) {
        throw Stop(failed.status() == CUS_ERROR_NO_CUDA ? DEVICE : FAILED, name + failed.what());
    }
}

} // namespace sample
