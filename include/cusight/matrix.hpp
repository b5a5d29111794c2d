// cusight/matrix.hpp: exceptions, matrices that own memory, streams, and the arguments of the C++ classes. C++17,
// header-only, no OpenCV.
#ifndef CUSIGHT_MATRIX_HPP
#define CUSIGHT_MATRIX_HPP

#include "core.h"

#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cusight {

// What check() throws: the status and the library's message.
class Error : public std::runtime_error {
  public:
    // Takes the calling thread's last message.
    explicit Error(cusStatus status) : Error(status, cusLastError()) {}
    // Takes a message of your own.
    Error(cusStatus status, const std::string &message)
        : std::runtime_error(std::string(cusStatusName(status)) + ": " + message), status_(status) {}
    // Returns the status of the call that failed.
    cusStatus status() const noexcept { return status_; }
    // Returns what() without the status's name.
    std::string message() const { return std::string(what()).substr(std::string(cusStatusName(status_)).size() + 2); }

  private:
    cusStatus status_;
};

// While it exists, long calls of the thread that made it call a function: see cusSetProgress(). A nested one replaces it
// meanwhile. Destroy it on its thread, outside the function.
class Progress {
  public:
    // Gets the part that is done, 0 to 1, and the seconds that are left, below 0 if they are unknown. Returns whether to go
    // on: otherwise the call throws Error with CUS_ERROR_CANCELLED. An exception ends the call, which throws it.
    using Function = std::function<bool(double done, double seconds_left)>;

    // Sets the function for the calling thread.
    explicit Progress(Function function) : function_(std::move(function)), outer_(current()) {
        set(this);
        current() = this;
    }
    ~Progress() {
        current() = outer_;
        (void)cusSetProgress(outer_ ? &call : nullptr, outer_);
    }
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    // Throws what the function has thrown; for check().
    static void rethrow() {
        if (current() && current()->thrown_)
            std::rethrow_exception(std::exchange(current()->thrown_, nullptr));
    }

  private:
    static Progress *&current() {
        static thread_local Progress *progress = nullptr;
        return progress;
    }
    static void set(Progress *progress) {
        if (const cusStatus status = cusSetProgress(&call, progress))
            throw Error(status);
    }
    static int call(void *user, double done, double seconds_left) noexcept {
        Progress &self = *static_cast<Progress *>(user);
        try {
            return !self.function_(done, seconds_left);
        } catch (...) {
            self.thrown_ = std::current_exception();
            return 1;
        }
    }
    Function function_;
    Progress *outer_;
    std::exception_ptr thrown_;
};

// Throws Error unless the status is CUS_OK.
inline void check(cusStatus status) {
    Progress::rethrow();
    if (status != CUS_OK)
        throw Error(status);
}

namespace detail {

template<auto destroy>
struct Destroy {
    template<class T>
    void operator()(T *object) const noexcept {
        destroy(object);
    }
};

// An object of the C interface: destroyed with its owner, moved, never copied.
template<class T, auto destroy>
using Handle = std::unique_ptr<T, Destroy<destroy>>;

} // namespace detail

// ---- Streams -----------------------------------------------------------------------------------------------------------

// A stream of its own, destroyed with the object.
class Stream {
  public:
    // Does not synchronize with the default stream.
    Stream() {
        cusStream made = nullptr;
        check(cusStreamCreate(&made));
        handle_.reset(made);
    }
    // Waits for everything queued so far.
    void synchronize() const { check(cusStreamSynchronize(get())); }
    // Makes work queued from now on wait for `event` as last recorded.
    void wait(cusStreamEvent event) const { check(cusStreamWaitEvent(get(), event)); }
    // Returns the stream.
    cusStream get() const noexcept { return handle_.get(); }
    // Returns the stream.
    operator cusStream() const noexcept { return get(); }

  private:
    detail::Handle<CUstream_st, &cusStreamDestroy> handle_;
};

// An event of its own, destroyed with the object.
class StreamEvent {
  public:
    // Not recorded yet.
    StreamEvent() {
        cusStreamEvent made = nullptr;
        check(cusStreamEventCreate(&made));
        handle_.reset(made);
    }
    // Stands for all work queued in `stream` so far.
    void record(cusStream stream) const { check(cusStreamEventRecord(get(), stream)); }
    // Waits until that work is done.
    void synchronize() const { check(cusStreamEventSynchronize(get())); }
    // Milliseconds from `start` to this event.
    float since(const StreamEvent &start) const {
        float milliseconds = 0;
        check(cusStreamEventElapsed(start.get(), get(), &milliseconds));
        return milliseconds;
    }
    // Returns the event.
    cusStreamEvent get() const noexcept { return handle_.get(); }
    // Returns the event.
    operator cusStreamEvent() const noexcept { return get(); }

  private:
    detail::Handle<CUevent_st, &cusStreamEventDestroy> handle_;
};

// Specialize for another library's stream type: static cusStream get(const T &). opencv.hpp does so for cv::cuda::Stream.
template<class T>
struct StreamTraits {};

// A stream argument: nothing (the default stream), a cudaStream_t, a Stream, or a type with StreamTraits.
class StreamRef {
  public:
    // Takes a cudaStream_t, or the default stream.
    StreamRef(cusStream stream = nullptr) noexcept : stream_(stream) {}
    // Takes a Stream.
    StreamRef(const Stream &stream) noexcept : stream_(stream.get()) {}
    // Takes a type with StreamTraits.
    template<class T, class = decltype(StreamTraits<T>::get(std::declval<const T &>()))>
    StreamRef(const T &stream) : stream_(StreamTraits<T>::get(stream)) {}
    // Returns the stream.
    operator cusStream() const noexcept { return stream_; }

  private:
    cusStream stream_;
};

// ---- Device memory -----------------------------------------------------------------------------------------------------

// Does cusSetDeviceAllocator for an object with
//   void *allocate(size_t bytes, int device, cusStream stream);
//   void deallocate(void *data, size_t bytes, int device, cusStream stream);
// Exceptions of allocate become CUS_ERROR_NO_MEMORY. The object must outlive everything that is created meanwhile.
template<class Pool>
void setDeviceAllocator(Pool &pool) {
    cusDeviceAllocator allocator = {};
    allocator.user = &pool;
    allocator.allocate = [](size_t bytes, int device, cusStream stream, void *user) noexcept -> void * {
        try {
            return static_cast<Pool *>(user)->allocate(bytes, device, stream);
        } catch (...) {
            return nullptr;
        }
    };
    allocator.deallocate = [](void *data, size_t bytes, int device, cusStream stream, void *user) noexcept {
        static_cast<Pool *>(user)->deallocate(data, bytes, device, stream);
    };
    check(cusSetDeviceAllocator(&allocator));
}
// Takes device memory from CUDA again.
inline void resetDeviceAllocator() {
    check(cusSetDeviceAllocator(nullptr));
}

// ---- Matrices ----------------------------------------------------------------------------------------------------------

// A cusMat that releases its memory. Wrapped memory stays its owner's.
class Matrix {
  public:
    // Makes an empty matrix.
    Matrix() = default;
    // Allocates: see cusMatCreate.
    Matrix(int rows, int cols, int type, cusSpace space = CUS_HOST) { create(rows, cols, type, space); }
    // Leaves `other` empty.
    Matrix(Matrix &&other) noexcept : mat_(std::exchange(other.mat_, cusMat CUS_MAT_INIT)) {}
    // Releases what this matrix held, and leaves `other` empty.
    Matrix &operator=(Matrix &&other) noexcept {
        if (this != &other) {
            cusMatRelease(&mat_);
            mat_ = std::exchange(other.mat_, cusMat CUS_MAT_INIT);
        }
        return *this;
    }
    ~Matrix() { cusMatRelease(&mat_); }

    // Allocates page-locked host memory.
    static Matrix pinned(int rows, int cols, int type) {
        Matrix made;
        check(cusMatCreatePinned(&made.mat_, rows, cols, type));
        return made;
    }
    // step 0: rows without padding.
    static Matrix wrap(int rows, int cols, int type, cusSpace space, void *data, size_t step = 0) {
        Matrix made;
        check(cusMatWrap(&made.mat_, rows, cols, type, space, data, step));
        return made;
    }

    // Keeps memory that fits.
    void create(int rows, int cols, int type, cusSpace space = CUS_HOST) {
        check(cusMatCreate(&mat_, rows, cols, type, space));
    }
    // Frees what the matrix owns and makes it empty.
    void release() noexcept { cusMatRelease(&mat_); }
    // Returns a view, valid while this matrix keeps its memory.
    cusMat region(int x, int y, int cols, int rows) const {
        cusMat view = CUS_MAT_INIT;
        check(cusMatRegion(&mat_, x, y, cols, rows, &view));
        return view;
    }
    // Sets every element to zero.
    void setZero(StreamRef stream = {}) { check(cusMatSetZero(&mat_, stream)); }

    // Returns whether there is no data.
    bool empty() const noexcept { return mat_.data == nullptr; }
    // Returns the number of rows.
    int rows() const noexcept { return mat_.rows; }
    // Returns the number of columns.
    int cols() const noexcept { return mat_.cols; }
    // Returns the element type: CUS_8UC3 and so on.
    int type() const noexcept { return mat_.type; }
    // Returns where the data is.
    cusSpace space() const noexcept { return mat_.space; }
    // Returns element x of row y; host memory only.
    template<class T>
    T &at(int y, int x) const {
        return reinterpret_cast<T *>(static_cast<char *>(mat_.data) + static_cast<size_t>(y) * mat_.step)[x];
    }
    // Returns the C matrix.
    const cusMat &get() const noexcept { return mat_; }
    // Returns the C matrix.
    cusMat &get() noexcept { return mat_; }

  private:
    cusMat mat_ = CUS_MAT_INIT;
};

// Specialize for another library's matrix type:
//   static cusMat view(const T &);                                      // owns nothing; empty for an empty matrix
//   static void create(T &, int rows, int cols, int type, cusSpace);    // as cusMatCreate; throws if it cannot
// opencv.hpp does so for cv::Mat and cv::cuda::GpuMat.
template<class T>
struct MatrixTraits {};

// A matrix that is read: a cusMat, a Matrix, or a type with MatrixTraits. Copies nothing; refers to the argument's memory.
class Input {
  public:
    // Takes a cusMat.
    Input(const cusMat &mat) noexcept : mat_(mat) {}
    // Takes a Matrix.
    Input(const Matrix &matrix) noexcept : mat_(matrix.get()) {}
    // Takes a type with MatrixTraits.
    template<class T, class = decltype(MatrixTraits<T>::view(std::declval<const T &>()))>
    Input(const T &matrix) : mat_(MatrixTraits<T>::view(matrix)) {}
    // Returns the matrix that the C function gets.
    const cusMat *get() const noexcept { return &mat_; }
    // Gives its fields.
    const cusMat *operator->() const noexcept { return &mat_; }

  private:
    cusMat mat_;
};

// Matrices that are read: one that an Input takes, or several, as a std::vector or in braces. Copies no pixels. One class
// serves both, because a cv::Mat converts to a vector of anything: overloads for one and for several would be ambiguous.
class Inputs {
  public:
    // One.
    template<class T, class = std::enable_if_t<std::is_convertible_v<const T &, Input>>>
    Inputs(const T &matrix) : one_(*Input(matrix).get()), data_(&one_), size_(1) {}
    // Matrices of the C interface.
    Inputs(const std::vector<cusMat> &matrices) noexcept : data_(matrices.data()), size_(matrices.size()) {}
    // Several of one type that an Input takes.
    template<class T, class = std::enable_if_t<std::is_convertible_v<const T &, Input>>>
    Inputs(const std::vector<T> &matrices) : Inputs(matrices.data(), matrices.size()) {}
    // Takes several, in braces.
    Inputs(std::initializer_list<Input> matrices) : Inputs(matrices.begin(), matrices.size()) {}
    Inputs(const Inputs &) = delete;
    Inputs &operator=(const Inputs &) = delete;
    // Returns the array that the C function gets.
    const cusMat *data() const noexcept { return data_; }
    // Returns the number of matrices.
    size_t size() const noexcept { return size_; }

  private:
    template<class T>
    Inputs(const T *matrices, size_t count) : many_(count), size_(count) {
        for (size_t i = 0; i < count; ++i)
            many_[i] = *Input(matrices[i]).get();
        data_ = many_.data();
    }

    cusMat one_ = CUS_MAT_INIT;
    std::vector<cusMat> many_;
    const cusMat *data_;
    size_t size_;
};

// A matrix that is written; it is created as needed.
class Output {
  public:
    // Takes a cusMat.
    Output(cusMat &mat) noexcept : native_(&mat) {}
    // Takes a Matrix.
    Output(Matrix &matrix) noexcept : native_(&matrix.get()) {}
    // Takes a type with MatrixTraits.
    template<class T, class = decltype(MatrixTraits<T>::view(std::declval<const T &>())),
             class = std::enable_if_t<!std::is_const_v<T>>>
    Output(T &matrix) : object_(&matrix), create_(createAs<T>), view_(MatrixTraits<T>::view(matrix)) {}
    // Returns the matrix that the C function gets. A cusMat is left to that function, which rejects bad input before it
    // changes an output.
    cusMat *create(int rows, int cols, int type, cusSpace space) {
        if (native_)
            return native_;
        if (rows > 0 && cols > 0)
            view_ = create_(object_, rows, cols, type, space);
        return &view_;
    }

  private:
    template<class T>
    static cusMat createAs(void *object, int rows, int cols, int type, cusSpace space) {
        T &matrix = *static_cast<T *>(object);
        MatrixTraits<T>::create(matrix, rows, cols, type, space);
        return MatrixTraits<T>::view(matrix);
    }

    cusMat *native_ = nullptr;
    void *object_ = nullptr;
    cusMat (*create_)(void *, int, int, int, cusSpace) = nullptr;
    cusMat view_ = CUS_MAT_INIT;
};

// Copies within one space or between the two (cusMatCopy, cusMatUpload, cusMatDownload). dst is made in `space`.
inline void copy(const Input &src, Output dst, cusSpace space, StreamRef stream = {}) {
    cusMat *to = dst.create(src->rows, src->cols, src->type, space);
    if (src->space == space)
        check(cusMatCopy(src.get(), to, stream));
    else
        check(space == CUS_DEVICE ? cusMatUpload(src.get(), to, stream) : cusMatDownload(src.get(), to, stream));
}

} // namespace cusight

#endif // CUSIGHT_MATRIX_HPP
