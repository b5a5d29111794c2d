/* Windows' own functions behind those of POSIX: see posix.h. */
#include "posix.h"
#include "files.h"

#include <errno.h>
#include <stdio.h>
#include <wchar.h>
#include <windows.h>

#include <bcrypt.h>

/* The library's threads wait in it, so it stays loaded. */
__attribute__((constructor)) static void stayLoaded(void) {
    HMODULE library;
    (void)GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                             (const wchar_t *)(void *)stayLoaded, &library);
}

/* ---- Memory ---------------------------------------------------------------------------------------------------------- */

void *cusi_windowsCalloc(size_t count, size_t size) {
    void *const block = size && count > SIZE_MAX / size ? NULL : malloc(count * size);
    return block ? memset(block, 0, count * size) : NULL;
}

void *memrchr(const void *bytes, int byte, size_t n) {
    const unsigned char *at = (const unsigned char *)bytes + n;
    while (n-- > 0)
        if (*--at == (unsigned char)byte)
            return (void *)at;
    return NULL;
}

void *memmem(const void *bytes, size_t n, const void *part, size_t length) {
    for (const char *at = bytes; n >= length; ++at, --n)
        if (memcmp(at, part, length) == 0)
            return (void *)at;
    return NULL;
}

/* ---- Files ----------------------------------------------------------------------------------------------------------- */

/* Sets errno; returns -1. */
static int failed(DWORD error) {
    switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
        errno = ENOENT;
        break;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        errno = EACCES;
        break;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
        errno = ENOSPC;
        break;
    default:
        errno = EIO;
    }
    return -1;
}

/* The name in UTF-16, to be freed. NULL: see errno. */
static wchar_t *wide(const char *path) {
    const int length = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *const name = length > 0 ? malloc((size_t)length * sizeof *name) : NULL;
    errno = length > 0 ? ENOMEM : EILSEQ;
    if (name)
        (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, name, length);
    return name;
}

int cusi_windowsOpen(const char *path, int flags, ...) {
    wchar_t *const name = wide(path);
    if (!name)
        return -1;
    const int file = _wopen(name, flags | _O_BINARY, _S_IREAD | _S_IWRITE), why = errno;
    const DWORD attributes = file < 0 ? GetFileAttributesW(name) : 0;
    const int is_folder = attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_DIRECTORY;
    free(name);
    errno = is_folder ? EISDIR : why;
    return file;
}

int cusi_windowsStat(const char *path, struct stat *about) {
    wchar_t *const name = wide(path);
    const int result = name ? _wstat64(name, about) : -1;
    free(name);
    return result;
}

int cusi_windowsAccess(const char *path, int mode) {
    wchar_t *const name = wide(path);
    const int result = name ? _waccess(name, mode) : -1;
    free(name);
    return result;
}

int cusi_windowsUnlink(const char *path) {
    wchar_t *const name = wide(path);
    const int result = name ? _wunlink(name) : -1;
    free(name);
    return result;
}

int cusi_windowsRename(const char *from, const char *to) {
    wchar_t *const name = wide(from), *const other = wide(to);
    int result = -1;
    if (name && other)
        result = MoveFileExW(name, other, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) ? 0 : failed(GetLastError());
    free(name);
    free(other);
    return result;
}

/* Reads or writes at a place, which moves that of the open file as well; nobody here uses it. */
static ssize_t transfer(int file, void *bytes, size_t n, off_t at, int writes) {
    OVERLAPPED place = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)((uint64_t)at >> 32)};
    const HANDLE handle = (HANDLE)_get_osfhandle(file);
    const DWORD most = n < 1u << 30 ? (DWORD)n : 1u << 30;
    DWORD done = 0;
    if (writes ? WriteFile(handle, bytes, most, &done, &place) : ReadFile(handle, bytes, most, &done, &place))
        return (ssize_t)done;
    const DWORD error = GetLastError();
    return error == ERROR_HANDLE_EOF ? 0 : failed(error);
}

ssize_t pread(int file, void *bytes, size_t n, off_t at) {
    return transfer(file, bytes, n, at, 0);
}

ssize_t pwrite(int file, const void *bytes, size_t n, off_t at) {
    return transfer(file, (void *)bytes, n, at, 1);
}

struct CusiFolder {
    char path[4 * MAX_PATH]; /* with a separator at its end, or "." */
    _WDIR *entries;
    struct dirent entry;
};

CusiFolder *cusi_windowsOpenFolder(const char *path) {
    CusiFolder *const folder = calloc(1, sizeof *folder);
    wchar_t *const name = wide(path);
    folder ? (void)snprintf(folder->path, sizeof folder->path, "%s", path) : (void)0;
    if (folder && name)
        folder->entries = _wopendir(name);
    free(name);
    if (folder && folder->entries)
        return folder;
    free(folder);
    return NULL;
}

struct dirent *cusi_windowsReadFolder(CusiFolder *folder) {
    for (const struct _wdirent *next; (next = _wreaddir(folder->entries)) != NULL;)
        if (WideCharToMultiByte(CP_UTF8, 0, next->d_name, -1, folder->entry.d_name, sizeof folder->entry.d_name, NULL,
                                NULL))
            return &folder->entry;
    return NULL;
}

void cusi_windowsCloseFolder(CusiFolder *folder) {
    (void)_wclosedir(folder->entries);
    free(folder);
}

static const char *within(const CusiFolder *folder, const char *name, char path[8 * MAX_PATH]) {
    (void)snprintf(path, 8 * MAX_PATH, "%s%s%s", folder->path, strcmp(folder->path, ".") == 0 ? "/" : "", name);
    return path;
}

int fstatat(const CusiFolder *folder, const char *name, struct stat *about, int flags) {
    char path[8 * MAX_PATH];
    (void)flags;
    return cusi_windowsStat(within(folder, name, path), about);
}

int unlinkat(const CusiFolder *folder, const char *name, int flags) {
    char path[8 * MAX_PATH];
    (void)flags;
    return cusi_windowsUnlink(within(folder, name, path));
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t at) {
    (void)address, (void)protection, (void)flags, (void)at;
    const HANDLE mapping = CreateFileMappingW((HANDLE)_get_osfhandle(file), NULL, PAGE_READONLY, 0, 0, NULL);
    void *const mapped = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, bytes) : NULL;
    if (!mapped)
        (void)failed(GetLastError());
    if (mapping)
        (void)CloseHandle(mapping); /* the view keeps it */
    return mapped ? mapped : MAP_FAILED;
}

int munmap(void *address, size_t bytes) {
    (void)bytes;
    return UnmapViewOfFile(address) ? 0 : -1;
}

/* ---- Processes and threads ------------------------------------------------------------------------------------------- */

int uname(struct utsname *host) {
    DWORD size = sizeof host->nodename;
    return GetComputerNameA(host->nodename, &size) ? 0 : -1;
}

ssize_t getrandom(void *bytes, size_t n, unsigned flags) {
    (void)flags;
    errno = EIO;
    return BCryptGenRandom(NULL, bytes, (ULONG)n, BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0 ? (ssize_t)n : -1;
}

int kill(pid_t process, int number) {
    (void)number;
    const HANDLE handle = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)process);
    int is_there = handle ? WaitForSingleObject(handle, 0) == WAIT_TIMEOUT : GetLastError() == ERROR_ACCESS_DENIED;
    if (handle)
        (void)CloseHandle(handle);
    errno = ESRCH;
    return is_there ? 0 : -1;
}

static void (*atEnd)(void *);

static DWORD WINAPI end(void *value) {
    atEnd(value);
    return 0;
}

static void endElsewhere(void *value) {
    const HANDLE thread = CreateThread(NULL, 0, end, value, 0, NULL);
    if (thread)
        (void)CloseHandle(thread);
}

#undef pthread_key_create
int cusi_windowsCreateKey(pthread_key_t *key, void (*end_value)(void *)) {
    atEnd = end_value;
    return pthread_key_create(key, endElsewhere);
}

long cusi_windowsFutex(volatile void *address, int what, uint32_t value, const struct timespec *limit, ...) {
    if (what == FUTEX_WAKE_PRIVATE)
        WakeByAddressAll((void *)address);
    else
        (void)WaitOnAddress(address, &value, sizeof value, limit ? (DWORD)(limit->tv_nsec / 1000000) : INFINITE);
    return 0;
}
