// cusight-diffstream's endpoint for browsers: who is let in, requests, WebSocket frames, fuzz seeds.
#ifdef CUSIGHT_HAVE_WEB

#include "../../fuzz/web_targets.hpp"

#include "../support.hpp"

#include "common/app.hpp"
#include "diffstream/web/files.hpp"

#include <chrono>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

using namespace diffstream;

namespace {

std::string answerTo(const std::string &request) {
    static const WebRules rules{WebSettings{}};
    HttpExchange exchange(rules);
    fuzz::Page page;
    page.input = request;
    page.most_in = 7;
    page.most_out = 1000;
    return fuzz::ask(exchange, page);
}

std::string get(const std::string &path) {
    return answerTo("GET " + path + " HTTP/1.1\r\nHost: localhost:1\r\n\r\n");
}

bool startsWith(const std::string &text, const std::string &start) {
    return text.compare(0, start.size(), start) == 0;
}

TEST(LiveWeb, OriginHostAndTokenDecide) {
    const WebRules open{WebSettings{}};
    EXPECT_EQ(open.refusal("/live", "localhost:80", "http://localhost:80"), "");
    EXPECT_EQ(open.refusal("/live", "127.0.0.1:80", "http://127.0.0.1:80"), "");
    EXPECT_EQ(open.refusal("/live", "[::1]:80", "http://[::1]:80"), "");
    for (const char *origin :
         {"", "null", "http://evil.example", "https://localhost:80", "http://localhost:81", "http://localhost"})
        EXPECT_NE(open.refusal("/live", "localhost:80", origin), "") << origin;
    // A name that leads to this machine, as in DNS rebinding.
    EXPECT_NE(open.refusal("/live", "evil.example:80", "http://evil.example:80"), "");
    EXPECT_NE(open.refusal("/live", "127.evil.example:80", "http://127.evil.example:80"), "");
    EXPECT_NE(open.refusal("/live", "", "http://"), "");
    for (const char *host : {"LOCALHOST:80", "localhost", "127.1.2.3:65535", "[0:0::1]:1", "[::1]"})
        EXPECT_EQ(open.refusal("/live", host, "http://" + std::string(host)), "") << host;
    EXPECT_EQ(open.refusal("/live", "LocalHost:80", "http://localhost:80"), "");
    // Only what begins like a loopback name, or is no host and port.
    for (const char *host : {"[::1].evil.com",
                             "[::1]evil.com:80",
                             "localhost:evil.com",
                             "localhost:80evil.com",
                             "localhost.evil.com",
                             "localhost.",
                             "localhost.:80",
                             "localhost:",
                             "localhost:65536",
                             "localhost:000080",
                             "localhost:+80",
                             "localhost:80:80",
                             "localhost:80 ",
                             "127.0.0.1.evil.com",
                             "127.0.0.1.",
                             "127.1",
                             "127.0.0.256",
                             "127.",
                             "[::1",
                             "[]",
                             "[::1]]",
                             "[::2]",
                             "[localhost]",
                             "::1",
                             "[::ffff:10.0.0.1]",
                             "user@localhost",
                             "localhost/",
                             "localhost,evil.com",
                             "local\x80host"})
        EXPECT_NE(open.refusal("/live", host, "http://" + std::string(host)), "") << host;
    WebSettings secret;
    secret.certificate = secret.private_key = "some.pem";
    const WebRules closed(secret);
    const std::string page = closed.address({"camera.example", "443"}, true);
    ASSERT_TRUE(startsWith(page, "https://camera.example:443/#token="));
    const std::string token = page.substr(page.find('=') + 1);
    EXPECT_EQ(token.size(), 32u);
    EXPECT_EQ(closed.refusal("/live?token=" + token, "camera.example:443", "https://camera.example:443"), "");
    for (const std::string &target : {std::string("/live"), std::string("/live?token="), "/live?token=" + token + "0",
                                      "/live?token=" + token.substr(1)})
        EXPECT_EQ(closed.refusal(target, "camera.example:443", "https://camera.example:443"),
                  "not authenticated: wrong token");
    EXPECT_NE(WebRules(secret).address({"a", "1"}, true), closed.address({"a", "1"}, true));
    for (const char *host : {"camera.example:evil.com", "camera.example.", "[camera.example]", "-", ":443", "a b"}) {
        const bool good = host == std::string("-");
        EXPECT_EQ(closed.refusal("/live?token=" + token, host, "https://" + std::string(host)).empty(), good) << host;
    }
}

TEST(LiveWeb, OneHostAndOneOrigin) {
    const std::string end = fuzz::UPGRADE.substr(fuzz::UPGRADE.find("Upgrade: ")), get = "GET /live HTTP/1.1\r\n",
                      host = "Host: localhost:1\r\n", origin = "Origin: http://localhost:1\r\n";
    EXPECT_EQ(answerTo(get + host + origin + end), "watching");
    EXPECT_TRUE(startsWith(answerTo(get + origin + end), "HTTP/1.1 400 "));
    EXPECT_TRUE(startsWith(answerTo(get + host + "Host: evil.example\r\n" + origin + end), "HTTP/1.1 400 "));
    EXPECT_TRUE(startsWith(answerTo(get + host + end), "HTTP/1.1 403 "));
    EXPECT_TRUE(startsWith(answerTo(get + host + origin + "Origin: http://evil.example\r\n" + end), "HTTP/1.1 403 "));
}

struct TokenFile {
    std::string path = ::testing::TempDir() + "cusight-token-" + std::to_string(::getpid());
    TokenFile() { ::unlink(path.c_str()); }
    ~TokenFile() { ::unlink(path.c_str()); }
    TokenFile(const TokenFile &) = delete;
    TokenFile &operator=(const TokenFile &) = delete;
    std::string read() const {
        std::ifstream in(path);
        std::string line;
        std::getline(in, line);
        return line;
    }
};

TEST(LiveWeb, TheTokensFileIsMadeOnceAndNamedInTheLog) {
    const TokenFile file;
    WebSettings settings;
    settings.token_file = file.path;
    const WebRules rules(settings);
    const std::string token = file.read();
    EXPECT_EQ(token.size(), 32u);
    struct stat about = {};
    ASSERT_EQ(::stat(file.path.c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 07777, 0600u);
    const std::string logged = rules.address({"a", "1"}, false);
    EXPECT_EQ(logged.find(token), std::string::npos) << logged;
    EXPECT_NE(logged.find(file.path), std::string::npos) << logged;
    EXPECT_EQ(rules.address({"a", "1"}, true), "http://a:1/#token=" + token);
    EXPECT_EQ(WebRules(settings).address({"a", "1"}, true), "http://a:1/#token=" + token) << "an existing file stays";
    // With the care of --key.
    ASSERT_EQ(::chmod(file.path.c_str(), 0644), 0);
    EXPECT_THROW(WebRules{settings}, sample::Stop);
    ASSERT_EQ(::unlink(file.path.c_str()), 0);
    ASSERT_EQ(::mkfifo(file.path.c_str(), 0600), 0);
    EXPECT_THROW(WebRules{settings}, sample::Stop);
    ASSERT_EQ(::unlink(file.path.c_str()), 0);
    ASSERT_EQ(::symlink((file.path + "-elsewhere").c_str(), file.path.c_str()), 0);
    EXPECT_THROW(WebRules{settings}, sample::Stop);
    EXPECT_NE(::access((file.path + "-elsewhere").c_str(), F_OK), 0) << "a link was followed";
    settings.token_file = "/nowhere/token";
    EXPECT_THROW(WebRules{settings}, sample::Stop);
}

TEST(LiveWeb, GuessesAreSlowedDownForEachAddress) {
    Guesses guesses;
    const auto start = Guesses::Clock::now();
    const auto tries = [&](const std::string &address, int from, int to) { // in ms, 100 a second
        int looked_at = 0;
        for (int t = from; t < to; t += 10) {
            const auto now = start + std::chrono::milliseconds(t);
            if (guesses.allowed(address, now)) {
                ++looked_at;
                guesses.failed(address, now);
            }
        }
        return looked_at;
    };
    EXPECT_EQ(tries("a", 0, 60000), Guesses::BURST + 59);
    EXPECT_TRUE(guesses.allowed("b", start + std::chrono::seconds(60))) << "another address";
    EXPECT_TRUE(guesses.allowed("a", start + std::chrono::seconds(62))) << "the next second";
    EXPECT_EQ(tries("a", 100000, 100500), Guesses::BURST) << "after a rest";
    // Many addresses: none but those that have used up least is forgotten.
    for (size_t i = 0; i < 3 * Guesses::ADDRESSES; ++i)
        guesses.failed("many " + std::to_string(i), start + std::chrono::milliseconds(100500));
    EXPECT_FALSE(guesses.allowed("a", start + std::chrono::milliseconds(100500)));
}

TEST(LiveWeb, TokensBeyondThoseAreNotLookedAt) {
    const TokenFile file;
    WebSettings settings;
    settings.token_file = file.path;
    const WebRules rules(settings);
    Guesses guesses;
    const auto asks = [&](const std::string &token, const std::string &address) {
        HttpExchange exchange(rules, &guesses, address);
        fuzz::Page page;
        page.input = fuzz::UPGRADE;
        page.input.replace(page.input.find("/live"), 5, token.empty() ? "/live" : "/live?token=" + token);
        const std::string said = fuzz::ask(exchange, page);
        return said == "watching" ? said : said.substr(9, 3);
    };
    for (int i = 0; i < 100; ++i) // a page that was opened without its token guesses nothing
        ASSERT_EQ(asks("", "a"), "403");
    for (int i = 0; i < Guesses::BURST; ++i)
        ASSERT_EQ(asks("0123456789abcdef", "a"), "403");
    EXPECT_EQ(asks("0123456789abcdef", "a"), "429");
    EXPECT_EQ(asks(file.read(), "a"), "429") << "nothing is learned";
    EXPECT_EQ(asks(file.read(), "b"), "watching");
}

TEST(LiveWeb, FilesAndErrors) {
    const std::string page = get("/");
    EXPECT_TRUE(startsWith(page, "HTTP/1.1 200 OK\r\n"));
    for (const char *header :
         {"Content-Security-Policy: default-src 'none'; script-src 'self' 'wasm-unsafe-eval';", "text/html; charset=utf-8",
          "X-Content-Type-Options: nosniff", "frame-ancestors 'none'", "Referrer-Policy: no-referrer"})
        EXPECT_NE(page.find(header), std::string::npos) << header;
    for (const WebFile &file : webFiles()) {
        const std::string answer = get("/" + std::string(file.name));
        EXPECT_TRUE(startsWith(answer, "HTTP/1.1 200 OK\r\n"));
        EXPECT_EQ(answer.substr(answer.find("\r\n\r\n") + 4), file.content);
    }
    EXPECT_NE(get("/cusight.wasm").find("Content-Type: application/wasm"), std::string::npos);
    for (const char *path : {"/nothing", "/../CMakeLists.txt", "/%2e%2e/etc/passwd", "//style.css", "/live"})
        EXPECT_TRUE(startsWith(get(path), "HTTP/1.1 404 ")) << path;
    const std::string head = answerTo("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_EQ(head.substr(head.size() - 4), "\r\n\r\n");
    EXPECT_TRUE(startsWith(answerTo("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"), "HTTP/1.1 405 "));
    EXPECT_TRUE(startsWith(answerTo("CUSD\1\r\n\r\n"), "HTTP/1.1 400 "));
    EXPECT_TRUE(startsWith(answerTo("GET / HTTP/1.0\r\n\r\n"), "HTTP/1.1 400 "));
    EXPECT_THROW(get("/" + std::string(9000, 'a')), NetError);
    EXPECT_EQ(answerTo(fuzz::UPGRADE), "watching");
}

TEST(LiveWeb, NoInlineScriptAndNoOtherAddress) {
    for (const WebFile &file : webFiles()) {
        if (file.type == "application/wasm")
            continue;
        const std::string text(file.content);
        EXPECT_EQ(text.find("<script>"), std::string::npos) << file.name;
        EXPECT_EQ(text.find(" style=\""), std::string::npos) << file.name;
        EXPECT_EQ(text.find(" onclick="), std::string::npos) << file.name;
        EXPECT_EQ(text.find("eval("), std::string::npos) << file.name;
        for (size_t at = text.find("://"); at != std::string::npos; at = text.find("://", at + 1))
            EXPECT_EQ(text.substr(at, 13), "://www.w3.org") << file.name; // the name of SVG
    }
}

// ---- WebSocket frames --------------------------------------------------------------------------------------------------

// A masked frame, as browsers send them. first: 0x81 text, 0x82 binary.
std::string frame(unsigned char first, const std::string &payload, bool masked = true) {
    std::string out;
    out += static_cast<char>(first);
    out += static_cast<char>((masked ? 0x80 : 0) | (payload.size() < 126 ? payload.size() : 126));
    if (payload.size() >= 126) {
        out += static_cast<char>(payload.size() >> 8);
        out += static_cast<char>(payload.size());
    }
    const std::string mask = masked ? "\x11\x22\x33\x44" : "";
    out += mask;
    for (size_t i = 0; i < payload.size(); ++i)
        out += static_cast<char>(payload[i] ^ (masked ? mask[i % 4] : 0));
    return out;
}

struct Socket {
    Socket() : socket(fuzz::webSocketOf(page)) {
        EXPECT_EQ(read(), "");
        EXPECT_TRUE(startsWith(page.output, "HTTP/1.1 101 "));
        EXPECT_NE(page.output.find("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), std::string::npos); // RFC 6455, section 1.3
        page.output.clear();
        receive();
    }
    Socket(const Socket &) = delete;
    Socket &operator=(const Socket &) = delete;
    void receive() {
        socket->read(asio::buffer(buffer), [this](const ErrorCode &error, size_t n) {
            socket->check(error);
            received.append(buffer, n);
            receive();
        });
    }
    std::string read() {
        page.settle();
        return std::exchange(received, std::string());
    }
    // Writes as much as is taken.
    size_t fill(size_t bytes) {
        const std::string data(bytes, 'x');
        size_t written = 0;
        while (const size_t n = std::min(socket->room(), data.size() - written)) {
            size_t taken = 0;
            socket->write(asio::buffer(data.data(), n), [&](const ErrorCode &error, size_t k) {
                socket->check(error);
                taken = k;
            });
            page.settle();
            EXPECT_EQ(taken, n);
            written += n;
        }
        return written;
    }
    fuzz::Page page;
    std::shared_ptr<WebSocket> socket;
    std::string received;
    char buffer[4096];
};

TEST(LiveWeb, BinaryMessagesAreTheViewersBytes) {
    Socket s;
    s.page.input = frame(0x82, "hello ") + frame(0x02, "wor") + frame(0x80, "ld") + frame(0x89, "ping");
    EXPECT_EQ(s.read(), "hello world");
    EXPECT_NE(s.page.output.find("ping"), std::string::npos); // the pong
    s.page.input = frame(0x88, "\x03\xe8");
    EXPECT_THROW(s.read(), NetError);
}

TEST(LiveWeb, OnlyAWindowIsOnItsWay) {
    Socket s;
    EXPECT_EQ(s.fill(3 * WebSocket::WINDOW), WebSocket::WINDOW);
    s.page.input = frame(0x81, "50000");
    s.read();
    EXPECT_EQ(s.fill(3 * WebSocket::WINDOW), 50000u);
    s.page.input = frame(0x81, std::to_string(WebSocket::WINDOW + 50000));
    s.read();
    EXPECT_EQ(s.fill(3 * WebSocket::WINDOW), WebSocket::WINDOW);
}

// Whether all of the input is taken.
bool takes(Socket &s, const std::string &input) {
    s.page.input = input;
    try {
        s.page.settle();
    } catch (const NetError &error) {
        EXPECT_STREQ(error.what(), "WebSocket: the page floods the sender with messages");
        return false;
    }
    return s.page.input.empty() && s.socket->socket().available() == 0;
}

std::string repeated(const std::string &what, size_t times) {
    std::string out;
    for (size_t i = 0; i < times; ++i)
        out += what;
    return out;
}

TEST(LiveWeb, SixtyFourMessagesOfAnyKindBetweenTwoFrames) {
    const std::string begun = frame(0x02, "a"), piece = frame(0x00, ""), long_ping = frame(0x89, std::string(125, 'p'));
    const struct {
        const char *what;
        std::string first, flood;
    } floods[] = {{"pings", "", frame(0x89, "p")},
                  {"long pings", "", long_ping},
                  {"pongs", "", frame(0x8a, "")},
                  {"texts", "", frame(0x81, "0")},
                  {"empty pieces", begun, piece},
                  {"empty messages", "", frame(0x82, "")},
                  {"long", "", frame(0x82, std::string(300, 'x'))}};
    for (const auto &flood : floods) {
        const size_t most = WebSocket::MESSAGES - (flood.first.empty() ? 0 : 1);
        Socket s;
        EXPECT_TRUE(takes(s, flood.first + repeated(flood.flood, most))) << flood.what;
        s.socket->nextFrame();
        EXPECT_TRUE(takes(s, repeated(flood.flood, WebSocket::MESSAGES))) << flood.what << ", after a frame";
        EXPECT_FALSE(takes(s, flood.flood)) << flood.what;
        Socket once;
        EXPECT_FALSE(takes(once, flood.first + repeated(flood.flood, most + 1))) << flood.what;
    }
}

TEST(LiveWeb, APageMayAlwaysSayWhatItHasDecoded) {
    Socket s;
    uint64_t sent = 0;
    for (int i = 0; i < 300; ++i) { // one large frame of the video
        sent += s.fill(WebSocket::ACKNOWLEDGE);
        ASSERT_TRUE(takes(s, frame(0x81, std::to_string(sent)))) << i;
    }
    sent += s.fill(3 * WebSocket::WINDOW);
    for (uint64_t decoded = sent - WebSocket::WINDOW; decoded < sent; decoded += WebSocket::ACKNOWLEDGE) // all at once
        ASSERT_TRUE(takes(s, frame(0x81, std::to_string(decoded)))) << decoded;
    EXPECT_TRUE(takes(s, repeated(frame(0x89, ""), WebSocket::MESSAGES)));
    EXPECT_FALSE(takes(s, frame(0x89, "")));
}

TEST(LiveWeb, BadFramesEndTheConnection) {
    const auto fails = [](const std::string &input) {
        Socket s;
        s.fill(1000);
        s.page.input = input;
        try {
            s.read();
        } catch (const NetError &) {
            return true;
        }
        return false;
    };
    EXPECT_FALSE(fails(frame(0x81, "1000")));
    EXPECT_TRUE(fails(frame(0x81, "1001")));                     // more than was sent
    EXPECT_TRUE(fails(frame(0x81, "900") + frame(0x81, "899"))); // less than before
    for (const char *text : {"", "-1", "abc", "99999999999999999999", "1.5"})
        EXPECT_TRUE(fails(frame(0x81, text))) << text;
    EXPECT_TRUE(fails(frame(0x82, "not masked", false)));
    EXPECT_TRUE(fails(frame(0x83, "reserved opcode")));
    EXPECT_TRUE(fails(frame(0xc2, "reserved bit")));
    EXPECT_TRUE(fails(frame(0x09, "a ping in pieces")));
    EXPECT_TRUE(fails(frame(0x80, "the end of nothing")));
    EXPECT_TRUE(fails(std::string("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10) + "aaaa")); // 2^64 - 1 bytes
}

TEST(LiveWeb, ArbitraryBytesNeverBreakIt) {
    auto random = support::generator();
    const std::string frames = frame(0x82, std::string(48, 'a')) + frame(0x81, "0") + frame(0x89, "p") + frame(0x88, "");
    const std::string seeds[] = {'\x05' + frames, '\x1d' + frames, '\x04' + fuzz::UPGRADE,
                                 "\x04GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"};
    for (int i = 0; i < 2000; ++i) {
        std::string input = seeds[random() % 4];
        for (uint64_t n = random() % 6; n > 0; --n)
            input[random() % input.size()] = static_cast<char>(random());
        fuzz::web(reinterpret_cast<const uint8_t *>(input.data()), input.size());
    }
}

} // namespace

#endif
