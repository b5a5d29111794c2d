// Memory and files.
#include "interpose.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>

using namespace faults;

// ---- Memory

template<class Call>
static void *allocate(const char *function, Call &&call) {
    if (strikes(MEMORY, function)) {
        errno = ENOMEM;
        return nullptr;
    }
    void *p = call();
    if (p)
        take(BLOCK, reinterpret_cast<uintptr_t>(p));
    return p;
}

extern "C" {
void *faulty_malloc(size_t n) {
    return allocate("malloc", [=] { return std::malloc(n); });
}
void *faulty_calloc(size_t n, size_t size) {
    return allocate("calloc", [=] { return std::calloc(n, size); });
}
void *faulty_aligned_alloc(size_t alignment, size_t n) {
    return allocate("aligned_alloc", [=] { return ::aligned_alloc(alignment, n); });
}
char *faulty_strdup(const char *s) {
    return static_cast<char *>(allocate("strdup", [=]() -> void * { return ::strdup(s); }));
}
void *faulty_realloc(void *old, size_t n) {
    if (strikes(MEMORY, "realloc")) {
        errno = ENOMEM;
        return nullptr;
    }
    if (old)
        give(BLOCK, reinterpret_cast<uintptr_t>(old));
    void *p = std::realloc(old, n); // never fails here
    take(BLOCK, reinterpret_cast<uintptr_t>(p));
    return p;
}
void faulty_free(void *p) {
    if (p)
        give(BLOCK, reinterpret_cast<uintptr_t>(p));
    std::free(p);
}

// A thread takes memory for its stack.
int faulty_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    return strikes(MEMORY, "pthread_create") ? EAGAIN : pthread_create(thread, attributes, run, argument);
}

// C++: new, new (nothrow), delete
void *faulty__Znwm(size_t n) {
    void *p = allocate("operator new", [=] { return ::operator new(n, std::nothrow); });
    if (!p)
        throw std::bad_alloc();
    return p;
}
void *faulty__ZnwmRKSt9nothrow_t(size_t n, const std::nothrow_t &nothrow) {
    return allocate("operator new", [&] { return ::operator new(n, nothrow); });
}
void faulty__ZdlPvm(void *p, size_t) {
    if (p)
        give(BLOCK, reinterpret_cast<uintptr_t>(p));
    ::operator delete(p);
}
void faulty__ZdlPv(void *p) {
    faulty__ZdlPvm(p, 0);
}
void faulty__ZdlPvRKSt9nothrow_t(void *p, const std::nothrow_t &) {
    faulty__ZdlPvm(p, 0);
}

// ---- Files

void *faulty_mmap(void *at, size_t n, int access, int flags, int fd, off_t from) {
    if (strikes(OPEN, "mmap")) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *const p = ::mmap(at, n, access, flags, fd, from);
    if (p != MAP_FAILED)
        take(BLOCK, reinterpret_cast<uintptr_t>(p));
    return p;
}
int faulty_munmap(void *p, size_t n) {
    give(BLOCK, reinterpret_cast<uintptr_t>(p));
    return ::munmap(p, n);
}
static int opened(int fd) {
    if (fd >= 0)
        take(FILE_DESCRIPTOR, static_cast<uintptr_t>(fd));
    return fd;
}
int faulty_open(const char *path, int flags, ...) {
    if (strikes(OPEN, "open")) {
        errno = EMFILE;
        return -1;
    }
    va_list list;
    va_start(list, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    return opened(::open(path, flags, mode));
}
int faulty___open_2(const char *path, int flags) {
    return faulty_open(path, flags);
}
int faulty_openat(int folder, const char *path, int flags, ...) {
    if (strikes(OPEN, "openat")) {
        errno = EMFILE;
        return -1;
    }
    va_list list;
    va_start(list, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    return opened(::openat(folder, path, flags, mode));
}
int faulty_mkstemp(char *name) {
    return opened(strikes(OPEN, "mkstemp") ? (errno = EMFILE, -1) : ::mkstemp(name));
}
int faulty_mkostemp(char *name, int flags) {
    return opened(strikes(OPEN, "mkostemp") ? (errno = EMFILE, -1) : ::mkostemp(name, flags));
}
int faulty_memfd_create(const char *name, unsigned flags) { // part of the clean-up after another failure
    return opened(::memfd_create(name, flags));
}
int faulty_close(int fd) {
    give(FILE_DESCRIPTOR, static_cast<uintptr_t>(fd));
    const int result = ::close(fd);
    return strikes(WRITE, "close") ? (errno = EIO, -1) : result; // the descriptor is closed in either case
}

} // extern "C"

// Shared by read and pread: every way in which reading goes wrong without an end.
template<class Call>
static ssize_t readFaulty(const char *function, size_t n, Call &&call) {
    if (strikes(READ, function))
        return errno = EIO, -1;
    if (strikes(INTERRUPT, function))
        return errno = EINTR, -1;
    return call(n > 1 && strikes(SHORT_READ, function) ? n / 2 : n);
}
extern "C" {
ssize_t faulty_read(int fd, void *data, size_t n) {
    return readFaulty("read", n, [=](size_t some) { return ::read(fd, data, some); });
}
ssize_t faulty_pread(int fd, void *data, size_t n, off_t at) {
    return readFaulty("pread", n, [=](size_t some) { return ::pread(fd, data, some, at); });
}
ssize_t faulty___read_chk(int fd, void *data, size_t n, size_t) {
    return faulty_read(fd, data, n);
}
ssize_t faulty___pread_chk(int fd, void *data, size_t n, off_t at, size_t) {
    return faulty_pread(fd, data, n, at);
}
} // extern "C"

#define INTERPOSE_ERRNO(function, class_, error, closes) INTERPOSE_WITH(function, &::function, class_, -1, error, closes)
INTERPOSE_ERRNO(fstat, OPEN, EIO, false)
INTERPOSE_ERRNO(stat, OPEN, EACCES, false)
INTERPOSE_ERRNO(access, OPEN, EACCES, false)
INTERPOSE_ERRNO(getrandom, OPEN, ENOSYS, false)
INTERPOSE_ERRNO(chmod, WRITE, EPERM, false)
INTERPOSE_ERRNO(write, WRITE, ENOSPC, false)
INTERPOSE_ERRNO(pwrite, WRITE, ENOSPC, false)
INTERPOSE_ERRNO(fsync, WRITE, EIO, false)
INTERPOSE_ERRNO(fdatasync, WRITE, EIO, false)
INTERPOSE_ERRNO(ftruncate, WRITE, EIO, false)
INTERPOSE_ERRNO(fchmod, WRITE, EPERM, false)
INTERPOSE_ERRNO(rename, WRITE, EACCES, false)
