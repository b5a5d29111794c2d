// The part of OpenSSL that sockets.cpp needs; tls.cpp has the rest.
#pragma once

#include "diffstream/net/sockets.hpp"

#ifdef CUSIGHT_HAVE_OPENSSL

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace diffstream {

struct TlsSession {
    // Throws NetError; the socket remains open.
    TlsSession(const Tls &tls, int socket);
    ~TlsSession() { SSL_free(ssl); }
    TlsSession(const TlsSession &) = delete;
    TlsSession &operator=(const TlsSession &) = delete;
    SSL *ssl = nullptr;
};

// Takes the errors from the thread's queue and describes the oldest.
std::string tlsReason();

// Whether this error of a TLS connection means that one end refuses the other. `complete`: the handshake is complete at this
// end; a viewer's handshake is complete before the sender has seen the viewer's certificate.
bool isRefusal(unsigned long code, bool complete);

} // namespace diffstream

#else

namespace diffstream {

struct TlsSession {};

} // namespace diffstream

#endif
