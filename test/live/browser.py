#!/usr/bin/env python3
"""Watches `cusight-diffstream send --web` in headless Chromium and Firefox, by WebDriver BiDi.

    test/live/browser.py PROGRAM [--screenshots FOLDER] [--only chromium|firefox] [--tests WORDS] [--patience 1]

Chromium is driven by chromedriver, Firefox by its own remote agent; needs python3-websockets. Prints what is checked and what was
measured; exits with 1 if anything failed, with 77 if there is no browser.
"""
import argparse
import asyncio
import base64
import contextlib
import http.server
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

try:
    import browsers
    from browsers import Browser, stop, until
except ImportError as missing:
    print(f"{missing}: skipped")
    sys.exit(77)
from attack import crc32c

FILES = {"/", "/style.css", "/icon.svg", "/player.js", "/page.js", "/worker.js", "/cusight.js", "/cusight-simd.wasm", "/live"}
failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what)
    return holds


def checksums(file):
    """The lines of --frame-checksums; the last may not be complete."""
    return {int(number): int(crc, 16) for number, crc in re.findall(r"^(\d+) ([0-9a-f]{8})$", file.read_text(), re.MULTILINE)}


# ---- Senders -----------------------------------------------------------------------------------------------------------------

class Page:
    """A program that serves a page."""
    started = []

    def __init__(self, folder, name, *command):
        self.log = Path(folder) / f"{name}.err"
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(self.log, "w"), start_new_session=True)
        Page.started.append(self.process)
        end = time.monotonic() + 30 * browsers.patience
        while "browser" not in self.said() and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        found = re.search(r"(?:in|for) a browser(?::| at) (\S+)", self.said())
        if not found:
            raise RuntimeError(f"{name} does not listen: {self.said()}")
        self.page = found[1]
        if token := re.search(r"\(the token is in (.+)\)", self.said()):
            self.page = self.page.replace("...", Path(token[1]).read_text().strip())
        self.port = int(re.search(r":(\d+)/", self.page)[1])

    async def says(self, text):
        """Whether the log has the text within ten seconds: a thread of its own writes it."""
        return await until(10, lambda: text in self.said())

    def said(self):
        return self.log.read_text() if self.log.exists() else ""

    def stop(self):
        stop(self.process)
        self.check()

    def check(self):
        """A program built with a sanitizer has found nothing."""
        expect("Sanitizer" not in self.said(), f"{self.log.stem}: {self.said()[-4000:]}")


class Sender(Page):
    """`cusight-diffstream send --web`."""

    def __init__(self, program, folder, name, *arguments, port=0):
        self.truth_file = Path(folder) / f"{name}.truth"
        super().__init__(folder, name, program, "send", *arguments, "--bind", "127.0.0.1:0", "--web", str(port), "--frame-checksums",
                         str(self.truth_file))

    def interrupt(self):
        """Ctrl-C, which lets the viewers have what is on its way."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60 * browsers.patience)
        self.check()

    def truth(self):
        if not self.truth_file.exists():
            return {}
        return checksums(self.truth_file)


def check_frames(frames, truth, who, least):
    wrong = [number for number, crc in frames if truth.get(number) != crc]
    expect(not wrong, f"{who}: {len(wrong)} of {len(frames)} pictures are not the sender's, the first {wrong[:3]}")
    expect(len(frames) >= least, f"{who}: {len(frames)} pictures, expected at least {least}")
    expect(frames and frames[-1][0] == max(truth), f"{who}: the last picture is {frames[-1:]}, expected {max(truth)}")


# ---- What is tested ----------------------------------------------------------------------------------------------------------

async def exact_and_late(program, folder, opened):
    """300 pictures bit for bit, a late viewer, requests for nothing but the page's files."""
    sender = Sender(program, folder, "exact", "synthetic:320x240@100000", "--fps", "50", "--min-viewers", str(len(opened)))
    tabs = [await browser.open(sender.page + "#checksums") for browser in opened]
    await until(30, lambda: len(sender.truth()) > 100)
    late = [await browser.open(sender.page + "#checksums") for browser in opened]
    for tab, least in [(tab, 320) for tab in tabs] + [(tab, 60) for tab in late]:
        await until(30, lambda: tab.run(f"window.viewer.frames.length > {least} && window.viewer.exact > 0 && window.viewer.painted > 10"))
    sender.interrupt()
    truth = sender.truth()
    for tab in tabs + late:
        await until(10, lambda: tab.run(f"window.viewer.frames.some(f => f[0] === {max(truth)})"))
    for tab in tabs:
        frames = await tab.frames()
        check_frames(frames, truth, tab.browser.name, 300)
        expect(await tab.text("badge") == "as sent; changes up to 20 are not sent", f"{tab.browser.name}: the badge says '{await tab.text('badge')}'")
        expect(await tab.text("checked") == f"frame {await tab.run('window.viewer.exact')}",
               f"{tab.browser.name}: the page says it was checked at {await tab.text('checked')}")
        expect(await tab.run("window.viewer.painted") > 10, f"{tab.browser.name} paints nothing")
        print(f"   {tab.browser.name}: {len(frames)} pictures equal, '{await tab.text('badge')}'")
    for tab in late:
        frames = await tab.frames()
        check_frames(frames, truth, f"{tab.browser.name}, late", 50)
        expect(frames and frames[0][0] > 100, f"{tab.browser.name}: the late viewer begins with {frames[:1]}")
    own = f"127.0.0.1:{sender.port}"
    for browser in opened:
        foreign = [url for url in browser.requests if not url.startswith(("about:", "data:", "blob:", "chrome"))
                   and (url.split("/")[2] != own or "/" + url.split("/")[3].split("?")[0].split("#")[0] not in FILES)]
        expect(not foreign, f"{browser.name} requests {foreign[:3]}")
        expect(any(url.endswith("/cusight-simd.wasm") for url in browser.requests), f"{browser.name}: no requests were seen")
    for tab in tabs + late:
        await tab.close()


async def speed(program, folder, browser):
    """1080p60 in one worker, as people watch it: the checksum of a picture only where the sender sends one."""
    sender = Sender(program, folder, "speed", "synthetic:1920x1080@100000", "--fps", "60", "--threshold", "0")
    tab = await browser.open(sender.page)
    await until(20, lambda: tab.run("window.viewer.exact > 0"))
    await asyncio.sleep(3)
    decode, paint = await tab.run("[window.viewer.decodeMs, window.viewer.paintMs]")
    # Painting is the browser's own, which without a GPU takes as long as its version and the processor will.
    expect(paint > 0 and 0 < decode < 1000 / 60 * browsers.patience, f"{browser.name}: {decode:.2f} ms for a frame of 1920 x 1080")
    print(f"   {browser.name}, 1920 x 1080: {decode:.2f} ms to decode a frame, {paint:.2f} ms to paint it, {await tab.text('rate')}")
    sender.stop()
    await tab.close()


async def slow_tab(program, folder, browser):
    """A tab that is too busy for most of 150 frames of 1080p while another is not, and still busy when the sender ends."""
    sender = Sender(program, folder, "slow", "synthetic:1920x1080@100000", "--fps", "60", "--min-viewers", "2", "--threshold", "0")
    quick, slow = [await browser.open(sender.page + "#checksums") for _ in range(2)]
    await until(20, lambda: len(sender.truth()) > 10)
    first = len(sender.truth())
    # About 13 frames are on their way and 16 wait; the page's own clock does not depend on how long a command takes.
    await slow.run("window.busy = setInterval(() => post({kind: 'stall', milliseconds: 1000}), 1300)")
    await until(30, lambda: len(sender.truth()) >= first + 150)
    await slow.run("clearInterval(window.busy), post({kind: 'stall', milliseconds: 3000}) ?? 0")
    sender.interrupt()
    truth = sender.truth()
    for tab in (quick, slow):
        await until(10, lambda: tab.run(f"window.viewer.frames.some(f => f[0] === {max(truth)})"))
    seen, slow_seen = await quick.frames(), await slow.frames()
    check_frames(seen, truth, f"{browser.name}, quick tab", 30)
    check_frames(slow_seen, truth, f"{browser.name}, slow tab", 10)
    expect(len(slow_seen) < len(truth), f"{browser.name}: the slow tab saw all of {len(truth)} frames")
    print(f"   {browser.name}: of {len(truth)} frames the quick tab saw {len(seen)}, the slow one {len(slow_seen)}")
    for tab in (quick, slow):
        await tab.close()


async def lost_connection(program, folder, browser):
    sender = Sender(program, folder, "first-" + browser.name, "synthetic:160x120@100000", "--fps", "30")
    tab = await browser.open(sender.page + "#checksums")
    await until(10, lambda: tab.run("window.viewer.frames.length > 10"))
    sender.stop()
    expect(await until(10, lambda: tab.run("document.getElementById('state').textContent.includes('ying again')")), f"{browser.name} does not notice that the sender has gone")
    second = Sender(program, folder, "second-" + browser.name, "synthetic:160x120@100000", "--fps", "30", port=sender.port)
    before = len(await tab.frames())
    expect(await until(15, lambda: tab.run(f"window.viewer.frames.length > {before + 10}")), f"{browser.name} does not come back")
    frames, truth = (await tab.frames())[before + 2:], second.truth()
    expect(all(truth.get(number, crc) == crc for number, crc in frames), f"{browser.name}: wrong pictures after a lost connection")
    second.stop()
    await tab.close()


async def many_tabs(program, folder, browser, count=30):
    """30 tabs at once. A headless browser paints all of them, without a GPU: a few frames a second are what two cores bear."""
    sender = Sender(program, folder, "many", "synthetic:160x120@100000", "--fps", "3")
    tabs = [await browser.open(sender.page) for _ in range(count)]
    exact = 0
    for tab in tabs:
        exact += bool(await until(20, lambda: tab.run("window.viewer.exact > 0 && window.viewer.broken === null")))
    expect(exact == count, f"{browser.name}: {exact} of {count} tabs are exact")
    for tab in tabs:
        await tab.close()
    sender.stop()
    print(f"   {browser.name}: {count} tabs, {exact} exact")


def certificate(folder, name):
    """Paths of a certificate that its owner has signed, and of its key."""
    files = [str(Path(folder) / (name + ending)) for ending in (".pem", ".key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=page", "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]], check=True, stderr=subprocess.DEVNULL)
    os.chmod(files[1], 0o600)
    return files


async def encrypted(program, folder, browser):
    """A page with TLS, and the token that the program makes."""
    if not shutil.which("openssl"):
        print("   no openssl: skipped")
        return
    cert, key = certificate(folder, "tls-" + browser.name)
    sender = Sender(program, folder, "tls-" + browser.name, "synthetic:160x120@100000", "--fps", "20", "--web-cert", cert, "--web-cert-key", key,
                    "--web-token-file", str(Path(folder) / ("made-" + browser.name)))
    expect(re.match(r"https://127\.0\.0\.1:\d+/#token=[0-9a-f]{32}$", sender.page), f"the address with TLS is {sender.page}")
    tab = await browser.open(sender.page + "&checksums")
    expect(await until(15, lambda: tab.run("window.viewer.frames.length > 20 && window.viewer.exact > 0 && window.viewer.painted > 0")),
           f"{browser.name}, TLS: no exact pictures: {await tab.text('state')}")
    frames, truth = await tab.frames(), sender.truth()
    expect(all(truth.get(number, crc) == crc for number, crc in frames), f"{browser.name}: wrong pictures over TLS")
    for wrong in (sender.page.split("#")[0], sender.page[:-1] + ("1" if sender.page[-1] == "0" else "0")):
        other = await browser.open(wrong)
        expect(await until(10, lambda: other.run("document.getElementById('state').textContent.includes('refuses')")),
               f"{browser.name}, TLS: a wrong token is not refused")
        await other.close()
    await tab.close()
    sender.stop()


SAVED_PIXELS = """(async () => {
    const bitmap = await createImageBitmap(saved[0][0], {colorSpaceConversion: "none"});
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
    context.drawImage(bitmap, 0, 0);
    return Array.from(context.getImageData(0, 0, bitmap.width, bitmap.height).data);
})()"""
NAMELESS = """[...document.querySelectorAll("button, input, canvas, section, [role]")].filter(
    e => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length) && e.getAttribute("role") !== "status").map(e => e.outerHTML)"""


async def controls(program, folder, browser):
    """Keys, names for screen readers, a saved picture that is the sender's bit for bit, a recording."""
    sender = Sender(program, folder, "controls-" + browser.name, "synthetic:64x48@100000", "--fps", "20")
    tab, right_arrow = await browser.open(sender.page), "\ue014"
    expect(await until(10, lambda: tab.run("window.viewer.painted > 5")), f"{browser.name} paints nothing")
    expect(not (nameless := await tab.run(NAMELESS)), f"{browser.name}: controls without a name: {nameless}")
    for key, view in (("3", "both"), ("2", "heatmap"), ("1", "picture")):
        await tab.key(key)
        pressed = await tab.run("[...document.querySelectorAll('[data-view][aria-pressed=true]')].map(b => b.dataset.view)")
        expect(pressed == [view] and await tab.run("window.viewer.view") == view, f"{browser.name}: key {key} shows {pressed}")
    await tab.key(" ")
    await asyncio.sleep(0.3)
    paused_at = await tab.run("window.viewer.sequence")
    await asyncio.sleep(0.5)
    expect(await tab.run("window.viewer.sequence") == paused_at, f"{browser.name}: the space bar does not pause")
    await tab.key(right_arrow)
    expect(await until(5, lambda: tab.run(f"window.viewer.sequence > {paused_at}")), f"{browser.name}: the right arrow does not step")
    await asyncio.sleep(0.5)  # until the page has what the worker has painted
    await tab.run("(window.saved = [], download = (...blob_and_name) => saved.push(blob_and_name)) && 0")
    await tab.key("s")
    expect(await until(10, lambda: tab.run("saved.length === 1")), f"{browser.name}: s saves nothing")
    pixels, number = await tab.run(SAVED_PIXELS), int(re.fullmatch(r"frame-(\d+)\.png", await tab.run("saved[0][1]"))[1])
    bgr = bytes(pixels[i + c] for i in range(0, len(pixels), 4) for c in (2, 1, 0))
    expect(len(bgr) == 64 * 48 * 3 and crc32c(bgr) == sender.truth().get(number), f"{browser.name}: the saved picture is not frame {number}")
    await tab.key(" ")
    await tab.key("r")
    await asyncio.sleep(1)
    await tab.key("r")
    expect(await until(10, lambda: tab.run("saved.length === 2 && saved[1][0].size > 500")), f"{browser.name}: r records nothing")
    sender.stop()
    await tab.close()


class Empty(http.server.BaseHTTPRequestHandler):
    """Another site: empty pages."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


async def refusals(program, folder, browser):
    """A wrong token and a wrong origin, from a browser."""
    token = Path(folder) / "token"
    token.write_text("0123456789abcdef0123")
    token.chmod(0o600)
    sender = Sender(program, folder, "secret-" + browser.name, "synthetic:64x48@100000", "--fps", "20", "--web-token-file", str(token))
    plain = sender.page.split("#")[0]
    wrong = await browser.open(plain + "#token=0123456789abcdef0124")
    expect(await until(10, lambda: wrong.run("document.getElementById('state').textContent.includes('refuses')")),
           f"{browser.name}: a wrong token is not refused: {await wrong.text('state')}")
    expect(await sender.says("wrong token"), "the log does not say that a token was wrong")
    right = await browser.open(sender.page)
    expect(await until(10, lambda: right.run("window.viewer.painted > 0")), f"{browser.name}: the right token shows nothing")
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    stranger = await browser.open(f"http://127.0.0.1:{site.server_port}/")
    opened = await browser.call("script.evaluate", target={"context": stranger.context}, awaitPromise=True, expression=(
        f"new Promise(done => {{ const s = new WebSocket('ws://127.0.0.1:{sender.port}/live?token=0123456789abcdef0123');"
        "s.onopen = () => done(true); s.onerror = () => done(false); })"))
    expect(opened["result"].get("value") is False, f"{browser.name}: another origin may watch")
    expect(await sender.says("the page's origin is"), "the log does not say that an origin was wrong")
    site.shutdown()
    for tab in (wrong, right, stranger):
        await tab.close()
    sender.stop()


def record(program, folder):
    """Makes a page that plays a session without a server."""
    session, page, truth = (Path(folder) / f"session{ending}" for ending in (".cusd", "", ".truth"))
    subprocess.run([program, "send", "synthetic:160x120@120", "--unpaced", "--bind", "127.0.0.1:0", "--save-wire", session,
                    "--frame-checksums", truth], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([program, "page", session, page], check=True)


async def recorded(program, folder, browser):
    """A session is played without a server."""
    page, truth = Path(folder) / "session", checksums(Path(folder) / "session.truth")
    tab = await browser.open(f"file://{page}/index.html#checksums")
    expect(await until(20, lambda: tab.run("window.viewer.frames.length >= 120")), f"{browser.name}: the session is not played to its end")
    check_frames(await tab.frames(), truth, f"{browser.name}, recorded", 120)
    expect((await tab.text("badge")) == "as sent; changes up to 20 are not sent", f"{browser.name}: recorded: '{await tab.text('badge')}'")
    expect((await tab.text("checked")) == "frame 100", f"{browser.name}: recorded: checked at '{await tab.text('checked')}'")
    await tab.close()


async def events(program, folder, browser):
    """cusight-events waits for a browser, shows frames of events to the end, and the page says that this was the end, also when nobody
    answers any more."""
    page = Page(folder, "events-" + browser.name, Path(program).with_name("cusight-events"), "synthetic:160x120@200", "--web", "0",
                "--us-per-frame", "33000")
    expect(await page.says("waiting for a browser at http://"), f"{browser.name}: cusight-events does not say that it waits: {page.said()}")
    tab = await browser.open(page.page)
    expect(await until(20, lambda: tab.run("window.viewer.exact > 0 && window.viewer.painted > 5")), f"{browser.name}: cusight-events shows nothing exact")
    expect(await tab.text("badge") == "exact: all changes are sent", f"{browser.name}: events: '{await tab.text('badge')}'")
    expect(await until(30, lambda: page.process.poll() is not None), f"{browser.name}: cusight-events does not end")
    connects = await tab.run("window.viewer.connects")
    expect(await until(20, lambda: tab.run(f"window.viewer.connects > {connects} + 1")), f"{browser.name}: the page does not look for another sender")
    said = await tab.text("state")
    expect(said == "The recording has ended", f"{browser.name}: at the end of a recording the page says '{said}'")
    await tab.close()
    page.stop()


async def take_screenshots(program, folder, browser, target):
    clip = Path(os.environ.get("CUSIGHT_TEST_DATA", "")) / "vtest.avi"
    sender = Sender(program, folder, "pictures-" + browser.name + str(browser.dark), str(clip) if clip.is_file() else "synthetic:768x576@100000", "--loop", "--fps", "25")
    tab = await browser.open(sender.page)
    await until(20, lambda: tab.run("window.viewer.exact > 1"))
    theme = "dark" if browser.dark else "light"
    for view in ("picture", "both", "heatmap"):
        await tab.run(f"setView('{view}') ?? 0")
        for size, (width, height) in {"desktop": (1280, 900), "phone": (360, 1150)}.items():
            await tab.screenshot(Path(target) / f"{browser.name}-{theme}-{size}-{view}.png", width, height)
            overflow = await tab.run("document.documentElement.scrollWidth - window.innerWidth")
            expect(overflow <= 0, f"{browser.name}: {view} is {overflow} pixels too wide at {width}")
    sender.stop()
    await tab.close()


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--screenshots")
    parser.add_argument("--only", choices=["chromium", "firefox"])
    parser.add_argument("--tests", default="", help="only those whose names contain this")
    parser.add_argument("--patience", type=float, default=1, help="factor of all time-outs, for a busy machine")
    options = parser.parse_args()
    browsers.patience = options.patience
    names = [name for name, command in (("chromium", "chromedriver"), ("firefox", "firefox-esr"))
             if shutil.which(command) and options.only in (None, name)]
    if not names:
        print("neither chromedriver nor firefox-esr is here: skipped")
        return 77
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        opened = [Browser(name, folder) for name in names]
        for browser in opened:
            await browser.start()
        first = opened[:1]
        each = [(f"{name}, {browser.name}", test, [browser]) for browser in opened for name, test in (
            ("session without a server", recorded), ("lost connection", lost_connection), ("wrong token, wrong origin", refusals),
            ("TLS", encrypted), ("controls", controls))]
        tests = [("300 pictures, bit for bit, and a late viewer", exact_and_late, [opened]), *each,
                 ("frames of events", events, first), ("speed of 1080p60", speed, first), ("slow tab at 1080p", slow_tab, first),
                 ("many tabs", many_tabs, first)]
        try:
            await asyncio.to_thread(record, options.program, folder)
            for name, test, arguments in (t for t in tests if options.tests in t[0]):
                start = time.monotonic()
                print("--", name, flush=True)
                try:
                    await test(options.program, folder, *arguments)
                except (RuntimeError, OSError, asyncio.TimeoutError, subprocess.SubprocessError) as error:
                    expect(False, f"{name}: {error!r}")
                for process in Page.started:
                    if process.poll() is None:
                        stop(process)
                print(f"   {time.monotonic() - start:.1f} s", flush=True)
            for browser in opened if options.screenshots else []:
                await take_screenshots(options.program, folder, browser, options.screenshots)
        finally:
            for browser in opened:
                await browser.close()
        for name in names if options.screenshots else []:
            browser = Browser(name, folder, dark=True)
            await browser.start()
            try:
                await take_screenshots(options.program, folder, browser, options.screenshots)
            finally:
                await browser.close()
    print("all passed" if not failures else f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
