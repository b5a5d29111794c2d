#include "golden/golden.hpp"

namespace golden {

Data Choices::content(size_t n) {
    const int kind = below(5);
    if (kind == 4 && at_ != end_) {
        Data data;
        while (data.size() < n)
            data.push_back(at_[data.size() % static_cast<size_t>(end_ - at_)]);
        return data;
    }
    Numbers next(seed());
    Data data(n, static_cast<uint8_t>(below(256)));
    if (kind == 1)
        return data;
    for (size_t i = 0; i < n; ++i) {
        const uint32_t r = next();
        if (kind == 2)
            data[i] = r & 1 ? 255 : 0;
        else if (kind == 3)
            data[i] = i && r % 8 ? data[i - 1] : static_cast<uint8_t>((r >> 8) % 3 * 100);
        else
            data[i] = static_cast<uint8_t>(r);
    }
    return data;
}

Row anyRow(Choices &choices) {
    static Row (*const modules[])(Choices &) = {anyIntegral, anyMatch, anyFramediff, anyHsv,   anyStereo, anyEvents,
                                                anyEventgen, anyRaw,   anyMotion,    anyRemap, anyPose,   anyVideo};
    return modules[choices.below(12)](choices);
}

std::string differentFromReference(const uint8_t *bytes, size_t count, cusSpace space) {
    Choices choices(bytes, count);
    const Layout layout = choices.layout();
    const Row row = anyRow(choices);
    if ((space == CUS_DEVICE && row.promise == Promise::HOST_ONLY) || row.computed(space, layout) == row.expected())
        return "";
    return row.key() + ", padding " + std::to_string(layout.padding) + ", offset " + std::to_string(layout.offset);
}

} // namespace golden
