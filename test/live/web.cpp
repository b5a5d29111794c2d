// cusight-diffstream's door for browsers: who is let in, requests, WebSocket frames, fuzz seeds.
#ifdef CUSIGHT_HAVE_WEB

#include "../../fuzz/web_targets.hpp"

#include "../support.hpp"

using namespace diffstream;
using fuzz::MemoryTransport;

namespace {

std::string answerTo(const std::string &request) {
    static const WebRules rules{WebSettings{}};
    Visit visit(rules);
    MemoryTransport transport;
    transport.input = request;
    transport.most_in = 7;
    transport.most_out = 1000;
    for (int i = 0; i < 100000; ++i)
        if (visit.advance(transport) != Visit::State::PENDING)
            return visit.request().empty() || !visit.writing() ? "watching" : transport.output;
    return "nothing";
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
    WebSettings secret;
    secret.certificate = secret.private_key = "some.pem";
    const WebRules closed(secret);
    const std::string page = closed.address({"camera.example", "443"});
    ASSERT_TRUE(startsWith(page, "https://camera.example:443/#token="));
    const std::string token = page.substr(page.find('=') + 1);
    EXPECT_EQ(token.size(), 32u);
    EXPECT_EQ(closed.refusal("/live?token=" + token, "camera.example:443", "https://camera.example:443"), "");
    for (const std::string &target : {std::string("/live"), std::string("/live?token="), "/live?token=" + token + "0",
                                      "/live?token=" + token.substr(1)})
        EXPECT_EQ(closed.refusal(target, "camera.example:443", "https://camera.example:443"),
                  "not authenticated: wrong token");
    EXPECT_NE(WebRules(secret).address({"a", "1"}), closed.address({"a", "1"}));
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
    EXPECT_NE(get("/decoder.wasm").find("Content-Type: application/wasm"), std::string::npos);
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
        if (file.name == "decoder.wasm")
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
    Socket() {
        auto owned = std::make_unique<MemoryTransport>();
        transport = owned.get();
        socket = std::make_unique<WebSocket>(makeWebContext(), std::move(owned), fuzz::UPGRADE);
        EXPECT_EQ(read(), "");
        EXPECT_TRUE(startsWith(transport->output, "HTTP/1.1 101 "));
        EXPECT_NE(transport->output.find("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), std::string::npos); // RFC 6455, section 1.3
        transport->output.clear();
    }
    std::string read() {
        char buffer[4096];
        return {buffer, socket->read(buffer, sizeof buffer)};
    }
    // Writes as much as is taken.
    size_t fill(size_t bytes) {
        const std::string data(bytes, 'x');
        size_t written = 0;
        while (const size_t n = socket->write(data.data(), data.size() - written))
            written += n;
        return written;
    }
    MemoryTransport *transport;
    std::unique_ptr<WebSocket> socket;
};

TEST(LiveWeb, BinaryMessagesAreTheViewersBytes) {
    Socket s;
    s.transport->input = frame(0x82, "hello ") + frame(0x02, "wor") + frame(0x80, "ld") + frame(0x89, "ping");
    std::string all;
    for (int i = 0; i < 20; ++i)
        all += s.read();
    EXPECT_EQ(all, "hello world");
    EXPECT_NE(s.transport->output.find("ping"), std::string::npos); // the pong
    s.transport->input = frame(0x88, "\x03\xe8");
    EXPECT_THROW(for (int i = 0; i < 5; ++i) s.read(), NetError);
}

TEST(LiveWeb, OnlyAWindowIsOnItsWay) {
    Socket s;
    EXPECT_EQ(s.fill(3 * WebSocket::WINDOW), WebSocket::WINDOW);
    s.transport->input = frame(0x81, "50000");
    s.read();
    EXPECT_EQ(s.fill(3 * WebSocket::WINDOW), 50000u);
    s.transport->input = frame(0x81, std::to_string(WebSocket::WINDOW + 50000));
    s.read();
    EXPECT_EQ(s.fill(3 * WebSocket::WINDOW), WebSocket::WINDOW);
}

TEST(LiveWeb, BadFramesEndTheConnection) {
    const auto fails = [](const std::string &input) {
        Socket s;
        s.fill(1000);
        s.transport->input = input;
        try {
            for (int i = 0; i < 10; ++i)
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
