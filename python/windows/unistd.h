// What the module uses of POSIX and Windows lacks.
#pragma once
#include_next <unistd.h>

extern "C" __declspec(dllimport) void __stdcall Sleep(unsigned long);
extern "C" __declspec(dllimport) unsigned long __stdcall GetCurrentThreadId();

inline void pause() {
    Sleep(~0ul);
}

// Of the thread that loaded the module it is the process's, as on Linux of the main one.
inline const unsigned long loading_thread = GetCurrentThreadId();
inline int gettid() {
    return GetCurrentThreadId() == loading_thread ? getpid() : 0;
}
