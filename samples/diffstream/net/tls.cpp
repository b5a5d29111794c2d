#include "diffstream/net/secret.hpp"
#include "diffstream/net/tls_session.hpp"

#include "common/app.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef CUSIGHT_HAVE_OPENSSL
#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#endif

namespace diffstream {

using sample::Stop;

#ifdef CUSIGHT_HAVE_OPENSSL

struct Tls::Context {
    SSL_CTX *ssl = nullptr;
    bool server = false;
    bool has_key = false; // a shared key; otherwise certificates
    std::string host;
    std::array<unsigned char, 32> key{};
    Context() = default;
    ~Context() {
        SSL_CTX_free(ssl);
        OPENSSL_cleanse(key.data(), key.size());
    }
    Context(const Context &) = delete;
    Context &operator=(const Context &) = delete;
};

namespace {

constexpr const char *IDENTITY = "cusight-diffstream";

int digitValue(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void readKey(const std::string &file, std::array<unsigned char, 32> &key) {
    const Secret text("--key", file, 256);
    size_t digits = 0;
    bool valid = true;
    for (const char c : text) {
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
            continue;
        const int value = digitValue(c);
        valid = valid && value >= 0 && digits < 2 * key.size();
        if (!valid)
            break;
        unsigned char &byte = key[digits / 2];
        byte = static_cast<unsigned char>(byte << 4 | value);
        ++digits;
    }
    if (!valid || digits != 2 * key.size())
        throw Stop(sample::USAGE,
                   "--key " + file + ": expected 64 hexadecimal digits, as written by `openssl rand -hex 32`");
}

// ---- The shared key ----------------------------------------------------------------------------------------------------

// The shared key as a TLS 1.3 session (RFC 8446, section 2.2).
SSL_SESSION *makeSession(SSL *ssl) {
    const auto *context = static_cast<Tls::Context *>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    static const unsigned char aes128gcm_sha256[2] = {0x13, 0x01};
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes128gcm_sha256);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session && cipher && SSL_SESSION_set1_master_key(session, context->key.data(), context->key.size()) &&
        SSL_SESSION_set1_id_context(session, reinterpret_cast<const unsigned char *>(IDENTITY),
                                    static_cast<unsigned>(std::strlen(IDENTITY))) &&
        SSL_SESSION_set_cipher(session, cipher) && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return nullptr;
}

int useKey(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *length, SSL_SESSION **session) {
    *session = nullptr;
    if (digest && EVP_MD_get_type(digest) != NID_sha256)
        return 1; // the key is for SHA-256: continue without it, which the other end refuses
    *session = makeSession(ssl);
    *id = reinterpret_cast<const unsigned char *>(IDENTITY);
    *length = std::strlen(IDENTITY);
    return *session != nullptr;
}

int findKey(SSL *ssl, const unsigned char *identity, size_t length, SSL_SESSION **session) {
    *session = nullptr;
    if (length != std::strlen(IDENTITY) || std::memcmp(identity, IDENTITY, length) != 0)
        return 1; // unknown identity: no key, so the handshake fails
    *session = makeSession(ssl);
    return *session != nullptr;
}

// ---- Certificates ------------------------------------------------------------------------------------------------------

struct Free {
    void operator()(BIO *bio) const { BIO_free(bio); }
    void operator()(EVP_PKEY *key) const { EVP_PKEY_free(key); }
};

void loadPrivateKey(SSL_CTX *ssl, const std::string &option, const std::string &file) {
    const Secret text(option, file, 65536);
    const std::unique_ptr<BIO, Free> memory(BIO_new_mem_buf(text.begin(), static_cast<int>(text.size())));
    const std::unique_ptr<EVP_PKEY, Free> key(memory ? PEM_read_bio_PrivateKey(memory.get(), nullptr, nullptr, nullptr)
                                                     : nullptr);
    if (!key || SSL_CTX_use_PrivateKey(ssl, key.get()) != 1 || SSL_CTX_check_private_key(ssl) != 1)
        throw Stop(sample::USAGE, option + " " + file + ": " + tlsReason());
}

void requireRegular(const std::string &option, const std::string &file) {
    struct stat status = {};
    if (::stat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
        throw Stop(sample::USAGE, option + " " + file + ": expected a regular file");
}

void loadCertificates(SSL_CTX *ssl, const TlsFiles &files) {
    const std::string option = files.browsers ? "--web-cert" : "--cert";
    requireRegular(option, files.certificate);
    if (SSL_CTX_use_certificate_chain_file(ssl, files.certificate.c_str()) != 1)
        throw Stop(sample::USAGE, option + " " + files.certificate + ": " + tlsReason());
    loadPrivateKey(ssl, option + "-key", files.private_key);
    if (files.browsers) {
        SSL_CTX_set_verify(ssl, SSL_VERIFY_NONE, nullptr);
        return;
    }
    requireRegular("--ca", files.authority);
    if (SSL_CTX_load_verify_locations(ssl, files.authority.c_str(), nullptr) != 1)
        throw Stop(sample::USAGE, "--ca " + files.authority + ": " + tlsReason());
}

// ---- Shared by both ends -----------------------------------------------------------------------------------------------

// TLS 1.3 only, both ends verified, no resumption.
SSL_CTX *createContext() {
    SSL_CTX *ssl = SSL_CTX_new(TLS_method());
    // No resumption: every connection is authenticated. OpenSSL treats a shared key as a session, and a verifying server
    // requires a context id for sessions.
    if (!ssl || !SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) || !SSL_CTX_set_num_tickets(ssl, 0) ||
        !SSL_CTX_set_session_id_context(ssl, reinterpret_cast<const unsigned char *>(IDENTITY),
                                        static_cast<unsigned>(std::strlen(IDENTITY)))) {
        const std::string why = tlsReason();
        SSL_CTX_free(ssl);
        throw Stop(sample::FAILED, "TLS 1.3 is not available: " + why);
    }
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    // With a shared key there are no certificates, so a client that does not use the key fails this check.
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    return ssl;
}

// The sender's certificate must be for the address that the viewer connects to.
bool requireHost(SSL *ssl, const std::string &host) {
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1)
        return true;
    ERR_clear_error(); // not an IP address, so a name
    return !host.empty() && SSL_set1_host(ssl, host.c_str()) == 1;
}

} // namespace

std::string tlsReason() {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    const char *text = code ? ERR_reason_error_string(code) : nullptr;
    return text ? text : "the connection broke";
}

bool isRefusal(unsigned long code, bool complete) {
    if (code == 0)
        return false;
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
    if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return false; // the connection broke, or was evicted
#endif
    if (!complete)
        return true;
    if (ERR_GET_LIB(code) != ERR_LIB_SSL)
        return false;
    switch (ERR_GET_REASON(code)) { // the other end's alert
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_TLSV1_ALERT_INSUFFICIENT_SECURITY:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return true;
    default:
        return false;
    }
}

Tls::Tls(const TlsFiles &files, bool server, const std::string &host) : context_(std::make_unique<Context>()) {
    const bool certificates =
        !files.certificate.empty() && !files.private_key.empty() && files.authority.empty() == files.browsers;
    if (files.browsers && !certificates)
        throw Stop(sample::USAGE, "TLS for browsers needs --web-cert and --web-cert-key together");
    if (files.key.empty() != certificates || (certificates && !files.key.empty()))
        throw Stop(sample::USAGE, "TLS needs either --key, or --cert, --cert-key and --ca together");
    Context &c = *context_;
    c.server = server;
    c.host = host;
    c.has_key = !files.key.empty();
    if (c.has_key)
        readKey(files.key, c.key);
    c.ssl = createContext();
    SSL_CTX_set_app_data(c.ssl, &c);
    if (!c.has_key) {
        loadCertificates(c.ssl, files);
        return;
    }
    if (SSL_CTX_set_ciphersuites(c.ssl, "TLS_AES_128_GCM_SHA256") != 1)
        throw Stop(sample::FAILED, "TLS_AES_128_GCM_SHA256 is not available: " + tlsReason());
    SSL_CTX_set_psk_use_session_callback(c.ssl, useKey);
    SSL_CTX_set_psk_find_session_callback(c.ssl, findKey);
}

TlsSession::TlsSession(const Tls &tls, int socket) {
    const Tls::Context &context = tls.context();
    ssl = SSL_new(context.ssl);
    bool made = ssl && SSL_set_fd(ssl, socket) == 1;
    if (made && context.server)
        SSL_set_accept_state(ssl);
    else if (made)
        SSL_set_connect_state(ssl);
    if (made && !context.server && !context.has_key && !requireHost(ssl, context.host)) {
        SSL_free(ssl);
        throw NotAuthenticated("'" + context.host + "' is no name that a certificate can have");
    }
    if (!made) {
        SSL_free(ssl);
        throw NetError("TLS: " + tlsReason());
    }
}

#else

struct Tls::Context {};
Tls::Tls(const TlsFiles &, bool, const std::string &) {
    throw Stop(sample::USAGE, "this build has no OpenSSL: without TLS only loopback addresses are allowed");
}

#endif

Tls::~Tls() = default;

} // namespace diffstream
