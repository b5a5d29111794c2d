// Keeps signals away from threads.
#pragma once

#include <csignal>

#include <pthread.h>

namespace diffstream {

// While it exists, new threads block Ctrl-C and SIGTERM, so only the main thread runs their handler, which writes to stderr
// and may block.
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
