/* Files and what is around them: see posix.h. Names are UTF-8. */
#ifndef CUSI_WINDOWS_FILES_H
#define CUSI_WINDOWS_FILES_H

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#define O_CLOEXEC      _O_NOINHERIT
#define O_NONBLOCK     0
#define O_NOFOLLOW     0
#define O_DIRECTORY    0
#define S_ISSOCK(mode) 0

int cusi_windowsOpen(const char *path, int flags, ...);
int cusi_windowsStat(const char *path, struct stat *about);
int cusi_windowsAccess(const char *path, int mode);
int cusi_windowsUnlink(const char *path);
int cusi_windowsRename(const char *from, const char *to);
#define open(...)            cusi_windowsOpen(__VA_ARGS__)
#define _stat64(path, about) cusi_windowsStat(path, about) /* which stat() stands for */
#define access(path, mode)   cusi_windowsAccess(path, mode)
#define unlink(path)         cusi_windowsUnlink(path)
#define rename(from, to)     cusi_windowsRename(from, to)
#define fsync(file)          _commit(file)
#define fchmod(file, mode)   ((void)(mode), 0)

ssize_t pread(int file, void *bytes, size_t n, off_t at);
ssize_t pwrite(int file, const void *bytes, size_t n, off_t at);

/* A folder's entries by readdir are their names alone. */
typedef struct CusiFolder CusiFolder;
struct dirent *cusi_windowsReadFolder(CusiFolder *folder);
CusiFolder *cusi_windowsOpenFolder(const char *path);
void cusi_windowsCloseFolder(CusiFolder *folder);
int fstatat(const CusiFolder *folder, const char *name, struct stat *about, int flags);
int unlinkat(const CusiFolder *folder, const char *name, int flags);
#define DIR                 CusiFolder
#define opendir(path)       cusi_windowsOpenFolder(path)
#define readdir(folder)     cusi_windowsReadFolder(folder)
#define closedir(folder)    cusi_windowsCloseFolder(folder)
#define dirfd(folder)       (folder)
#define AT_SYMLINK_NOFOLLOW 0

enum { PROT_READ = 1, MAP_SHARED = 1, MADV_HUGEPAGE = 14 };
#define MAP_FAILED                      ((void *)-1)
#define madvise(address, bytes, advice) 0
void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t at);
int munmap(void *address, size_t bytes);

struct utsname {
    char nodename[256];
};
int uname(struct utsname *host);
ssize_t getrandom(void *bytes, size_t n, unsigned flags);
#define geteuid() 0

#endif
