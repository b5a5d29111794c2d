// An object of the library inside a Python object: closed explicitly, used by one thread at a time, kept alive by the arrays that
// view its memory.
#pragma once

#include "arrays.hpp"

#include <atomic>
#include <memory>

namespace cuspy {

template<class T>
class Handle {
  public:
    Handle(const char *name, T *pointer, void (*destroy)(T *)) : name_(name), object_(pointer, destroy) {}

    void close() {
        if (!object_)
            return;
        if (busy_.test_and_set())
            inUse();
        const std::shared_ptr<T> last = std::move(object_); // the object dies here, or with the last array that views it
        object_.reset();
        busy_.clear();
    }
    bool closed() const { return !object_; }
    T *get() const { return object_.get(); }

    // Keeps the memory of the object alive after close().
    nb::object owner() const {
        return nb::capsule(new std::shared_ptr<T>(object_),
                           [](void *pointer) noexcept { delete static_cast<std::shared_ptr<T> *>(pointer); });
    }

  private:
    template<class>
    friend class Use;
    [[noreturn]] void inUse() const {
        fail(CUS_ERROR_ALIAS, "%s is in use by another call; use one object per thread", name_);
    }
    const char *name_;
    std::shared_ptr<T> object_;
    std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

// Holds an object for one call. Raises if it is closed or another call is using it.
template<class T>
class Use {
  public:
    explicit Use(Handle<T> &handle) : handle_(handle) {
        if (handle.busy_.test_and_set())
            handle.inUse();
        if (!handle.object_) {
            handle.busy_.clear();
            fail(CUS_ERROR_VALUE, "%s is closed", handle.name_);
        }
    }
    ~Use() { handle_.busy_.clear(); }
    Use(const Use &) = delete;
    Use &operator=(const Use &) = delete;
    operator T *() const { return handle_.object_.get(); }

  private:
    Handle<T> &handle_;
};

// Adds the class of an object with a handle, which can be closed.
template<class T, class... Extra>
nb::class_<T> closeable(nb::module_ &module, const char *name, const Extra &...extra) {
    return nb::class_<T>(module, name, extra...)
        .def("close", [](T &self) { self.handle.close(); })
        .def_prop_ro("closed", [](T &self) { return self.handle.closed(); });
}

} // namespace cuspy
