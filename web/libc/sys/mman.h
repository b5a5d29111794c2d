/* A browser has no file to map: recordings are in memory. */
#ifndef CUSI_WEB_MMAN_H
#define CUSI_WEB_MMAN_H

#define PROT_READ                                 1
#define MAP_SHARED                                1
#define MADV_HUGEPAGE                             14
#define MAP_FAILED                                ((void *)-1)
#define mmap(at, size, access, kind, file, place) MAP_FAILED
#define madvise(at, size, advice)                 0
#define munmap(at, size)                          0

#endif
