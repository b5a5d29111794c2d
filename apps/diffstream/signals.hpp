// Threads that signals leave alone.
#pragma once

#include <csignal>

#include <pthread.h>

namespace diffstream {

// While it exists, threads inherit a mask without Ctrl-C and SIGTERM, so only the main thread runs their handler: it writes to
// stderr, which may block.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t both;
        sigemptyset(&both);
        sigaddset(&both, SIGINT);
        sigaddset(&both, SIGTERM);
        ::pthread_sigmask(SIG_BLOCK, &both, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked &) = delete;
    SignalsBlocked &operator=(const SignalsBlocked &) = delete;

  private:
    sigset_t before_;
};

} // namespace diffstream
