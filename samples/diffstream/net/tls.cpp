#include "diffstream/net/tls.hpp"

#include "common/app.hpp"
#include "diffstream/net/secret.hpp"

#include <algorithm>
#include <cstring>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

namespace diffstream {

using boost::system::error_code;
using sample::Stop;

namespace {

constexpr const char *IDENTITY = "cusight-diffstream";

void readKey(const std::string &file, std::array<unsigned char, 32> &key) {
    const Secret text("--key", file, 256);
    size_t digits = 0;
    bool valid = true;
    for (const char c : text) {
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
            continue;
        const int value = OPENSSL_hexchar2int(static_cast<unsigned char>(c));
        valid = value >= 0 && digits < 2 * key.size();
        if (!valid)
            break;
        unsigned char &byte = key[digits++ / 2];
        byte = static_cast<unsigned char>(byte << 4 | value);
    }
    if (!valid || digits != 2 * key.size())
        throw Stop(sample::USAGE,
                   "--key " + file + ": expected 64 hexadecimal digits, as written by `openssl rand -hex 32`");
}

// ---- The shared key ----------------------------------------------------------------------------------------------------

// Where a context keeps its Tls. Asio has the place of SSL_CTX_set_app_data().
int ownerIndex() {
    static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
}

// The shared key as a TLS 1.3 session (RFC 8446, section 2.2).
SSL_SESSION *makeSession(SSL *ssl) {
    const auto &key = static_cast<const Tls *>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), ownerIndex()))->key();
    static const unsigned char aes128gcm_sha256[2] = {0x13, 0x01};
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes128gcm_sha256);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session && cipher && SSL_SESSION_set1_master_key(session, key.data(), key.size()) &&
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

void require(const error_code &error, const std::string &what, sample::ExitCode code = sample::USAGE) {
    if (error)
        throw Stop(code, what + ": " + error.message());
}

void requireRegular(const std::string &what, const std::string &file) {
    struct stat status = {};
    if (::stat(file.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
        throw Stop(sample::USAGE, what + ": expected a regular file");
}

// The error that OpenSSL has reported last.
error_code lastError() {
    return {static_cast<int>(ERR_get_error()), boost::asio::error::get_ssl_category()};
}

} // namespace

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
    const auto refusals = {SSL_AD_HANDSHAKE_FAILURE,       SSL_AD_BAD_CERTIFICATE,
                           SSL_AD_UNSUPPORTED_CERTIFICATE, SSL_AD_CERTIFICATE_REVOKED,
                           SSL_AD_CERTIFICATE_EXPIRED,     SSL_AD_CERTIFICATE_UNKNOWN,
                           SSL_AD_ILLEGAL_PARAMETER,       SSL_AD_UNKNOWN_CA,
                           SSL_AD_ACCESS_DENIED,           SSL_AD_DECRYPT_ERROR,
                           SSL_AD_INSUFFICIENT_SECURITY,   SSL_AD_CERTIFICATE_REQUIRED};
    const int alert = ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET; // of the other end
    return std::find(refusals.begin(), refusals.end(), alert) != refusals.end();
}

Tls::Tls(const TlsFiles &files, bool server, const std::string &host)
    : server_(server), has_key_(!files.key.empty()), host_(host) {
    const bool certificates =
        !files.certificate.empty() && !files.private_key.empty() && files.authority.empty() == files.browsers;
    if (files.browsers && !certificates)
        throw Stop(sample::USAGE, "TLS for browsers needs --web-cert and --web-cert-key together");
    if (files.key.empty() != certificates || (certificates && !files.key.empty()))
        throw Stop(sample::USAGE, "TLS needs either --key, or --cert, --cert-key and --ca together");
    if (has_key_)
        readKey(files.key, key_);
    SSL_CTX *const ssl = context_.native_handle();
    // TLS 1.3 only, both ends verified. No resumption: every connection is authenticated. OpenSSL treats a shared key as a
    // session, and a verifying server requires a context id for sessions.
    ERR_clear_error();
    if (!SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) || !SSL_CTX_set_num_tickets(ssl, 0) ||
        !SSL_CTX_set_session_id_context(ssl, reinterpret_cast<const unsigned char *>(IDENTITY),
                                        static_cast<unsigned>(std::strlen(IDENTITY))))
        require(lastError(), "TLS 1.3 is not available", sample::FAILED);
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    // With a shared key there are no certificates, so a client that does not use the key fails this check.
    context_.set_verify_mode(files.browsers ? SSL_VERIFY_NONE : SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
    if (!has_key_) {
        loadCertificates(files);
        return;
    }
    SSL_CTX_set_ex_data(ssl, ownerIndex(), this);
    if (SSL_CTX_set_ciphersuites(ssl, "TLS_AES_128_GCM_SHA256") != 1)
        require(lastError(), "TLS_AES_128_GCM_SHA256 is not available", sample::FAILED);
    SSL_CTX_set_psk_use_session_callback(ssl, useKey);
    SSL_CTX_set_psk_find_session_callback(ssl, findKey);
}

Tls::~Tls() {
    OPENSSL_cleanse(key_.data(), key_.size());
}

void Tls::loadCertificates(const TlsFiles &files) {
    const std::string option = files.browsers ? "--web-cert" : "--cert", certificate = option + " " + files.certificate;
    error_code error;
    requireRegular(certificate, files.certificate);
    context_.use_certificate_chain_file(files.certificate, error);
    require(error, certificate);
    const Secret key(option + "-key", files.private_key, 65536);
    context_.use_private_key({key.begin(), key.size()}, boost::asio::ssl::context::pem, error);
    if (!error && SSL_CTX_check_private_key(context_.native_handle()) != 1)
        error = lastError();
    require(error, option + "-key " + files.private_key);
    if (files.browsers)
        return;
    requireRegular("--ca " + files.authority, files.authority);
    context_.load_verify_file(files.authority, error);
    require(error, "--ca " + files.authority);
}

// The sender's certificate must be for the address that the viewer connects to: an IP address or a name.
void Tls::prepare(SSL *connection) const {
    if (server_ || has_key_ || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), host_.c_str()) == 1)
        return;
    ERR_clear_error();
    if (host_.empty() || SSL_set1_host(connection, host_.c_str()) != 1)
        throw NotAuthenticated("'" + host_ + "' is no name that a certificate can have");
}

} // namespace diffstream
