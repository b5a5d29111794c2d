#!/usr/bin/env python3
"""Tries the pages of web/ in headless Chromium and Firefox: the golden rows, the tools with files, the keyboard alone, axe, requests.

    test/web/pages.py PAGES SEEDS [--axe axe.min.js] [--only chromium|firefox] [--screenshots FOLDER]

Exits with 1 if anything failed, with 77 if there is no browser.
"""
import argparse
import asyncio
import base64
import contextlib
import functools
import http.server
import shutil
import sys
import tempfile
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "live"))
try:
    import browsers
    from browsers import Browser, until
except ImportError as missing:
    print(f"{missing}: skipped")
    sys.exit(77)

failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what)
    return holds


class Files(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm", ".js": "text/javascript"}

    def log_message(self, *_):
        pass


def drop(section, *files):
    """JavaScript that drops files, [name, bytes], on a section of the page."""
    made = ", ".join(f"new File([Uint8Array.from(atob('{base64.b64encode(data).decode()}'), c => c.charCodeAt(0))], '{name}')" for name, data in files)
    return (f"(() => {{ const dataTransfer = new DataTransfer(); for (const file of [{made}]) dataTransfer.items.add(file);"
            f"document.getElementById('{section}').dispatchEvent(new DragEvent('drop', {{dataTransfer, bubbles: true, cancelable: true}})); return 1; }})()")


PNG = """(async () => { const c = new OffscreenCanvas(40, 30), g = c.getContext('2d'); g.fillStyle = 'rgb(10, 20, 30)'; g.fillRect(0, 0, 40, 30);
    if (%d) { g.fillStyle = 'rgb(10, 20, 31)'; g.fillRect(3, 4, 2, 1); }
    const b = new Uint8Array(await (await c.convertToBlob()).arrayBuffer()); return btoa(String.fromCharCode(...b)); })()"""
WATCH = "() => { window.violations = []; document.addEventListener('securitypolicyviolation', e => violations.push(e.blockedURI)); }"


async def says(tab, name, *words):
    """Waits until a tool says all of these."""
    found = await until(30, lambda: tab.run(f"{list(words)}.every(word => document.getElementById('{name}').textContent.includes(word))"))
    expect(found, f"{tab.browser.name}: {name} says '{await tab.text(name)}', expected {words}")


async def golden(tab, pages):
    rows = [line for table in (pages / "golden").glob("*.csv") for line in table.read_text().splitlines()[1:]]
    left = sum(line.startswith(("cusEventDecoderRun,Metavision", "cusEventDecoderRun,HDF5")) for line in rows)
    equal = len(rows) - left
    await tab.run("document.getElementById('check').click() ?? 0")
    await until(60, lambda: tab.run("document.getElementById('exact-says').textContent.includes('rows equal')"))
    text = await tab.text("exact-says")
    expect(text.startswith(f"{equal} of {len(rows)} rows equal with SIMD, {equal} without; {left} are of decoders for a GPU alone, 0 differ"), f"{tab.browser.name}: {text}")
    print(f"   {tab.browser.name}: {text}")


async def tools(tab, seeds):
    """Files dropped on each tool, good ones and others."""
    await says(tab, "motion-says", "the example, 480 x 320")
    await says(tab, "match-says", "6 places")
    await tab.run("scrollTo(0, 0) ?? 0")
    await tab.run(VIDEO)
    await says(tab, "motion-says", "film.webm, 480 x 320")
    await tab.run("document.getElementById('camera').click() ?? 0")  # there is none
    await until(10, lambda: tab.run("document.getElementById('motion-error').textContent !== ''"))
    expect(await tab.text("motion-error"), f"{tab.browser.name}: nothing is said of a camera that is not there")
    recording = (seeds / "evt3").read_bytes()[1:]  # a seed's first byte is the fuzzer's
    await tab.run(drop("events", ("run.raw", recording)))
    await says(tab, "events-says", "run.raw (EVT3", "of 25 events")
    await tab.run("(() => { for (const option of document.getElementById('representation').options) { option.selected = true;"
                  "document.getElementById('representation').dispatchEvent(new Event('change')); } return 1; })()")
    await says(tab, "events-says", "run.raw (EVT3")
    await tab.run(drop("events", ("dsec.h5", (seeds / "h5_dsec_gzip").read_bytes()[1:])))
    await says(tab, "events-error", "deflate: this build lacks zlib")
    await tab.run(drop("events", ("text", b"hello")))
    await says(tab, "events-error", "not an event recording")
    first, second = [base64.b64decode(await tab.run(PNG % changed)) for changed in (0, 1)]
    await tab.run(drop("difference", ("first.png", first), ("second.png", second)))
    await says(tab, "difference-says", "2 of 1,200 pixels differ, in 2 bytes and 2 bits, by up to 1")
    await tab.run(drop("difference", ("same.png", first), ("same.png", first)))
    await says(tab, "difference-says", "Equal: none of 4,800 bytes differs")
    await tab.run(drop("match", ("picture.png", first)))
    await says(tab, "match-says", "places")
    await tab.run(drop("match", ("picture.png", b"nothing")))
    await until(5, lambda: tab.run("document.getElementById('match-error').textContent !== ''"))
    expect(await tab.text("match-error"), f"{tab.browser.name}: a picture that is none is not refused")


VIDEO = """(async () => { const canvas = document.getElementById('motion-picture'), recorder = new MediaRecorder(canvas.captureStream(10)), parts = [];
    recorder.ondataavailable = event => parts.push(event.data);
    recorder.start();
    await new Promise(done => setTimeout(done, 1500));
    await new Promise(done => { recorder.onstop = done; recorder.stop(); });
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([new Blob(parts, {type: 'video/webm'})], 'film.webm', {type: 'video/webm'}));
    document.getElementById('motion').dispatchEvent(new DragEvent('drop', {dataTransfer, bubbles: true, cancelable: true}));
    return 1; })()"""
DRAG = """(() => { const canvas = document.getElementById('match-picture'), size = canvas.getBoundingClientRect(), scale = size.height / canvas.height;
    const left = size.left + (size.width - scale * canvas.width) / 2, options = (x, y) => ({clientX: left + scale * x, clientY: size.top + scale * y, bubbles: true});
    canvas.setPointerCapture = () => {};
    for (const [kind, x, y] of [['pointerdown', 356, 60], ['pointermove', 400, 90], ['pointermove', 444, 140], ['pointerup', 444, 140]])
        canvas.dispatchEvent(new PointerEvent(kind, options(x, y)));
    return 1; })()"""


async def drag(tab):
    """A rectangle that is dragged over the arrow at 400, 100, in a picture with black at its sides."""
    await tab.browser.call("browsingContext.setViewport", context=tab.context, viewport={"width": 1280, "height": 480})
    await tab.run("document.getElementById('turned').click() ?? 0")
    await says(tab, "match-says", "places in")
    await tab.run(DRAG)
    await says(tab, "match-says", ": 400, 100 (1.00)")


async def keyboard(tab):
    """Every control is reached by the tab key, in the order of the page, and works without a mouse."""
    reached = []
    controls = ("camera", "video-file", "motion-pause", "match-file", "turned", "least", "match-picture", "events-file", "representation", "window",
                "events-pause", "time", "first-file", "second-file", "threshold", "check")
    await tab.run("document.activeElement?.blur() ?? 0")
    while len(reached) < 40 and reached[-1:] != ["check"]:  # the tab key would then leave the page
        await tab.key("\ue004")
        reached.append(await tab.run("document.activeElement.id"))
    expect([name for name in reached if name] == list(controls), f"{tab.browser.name}: the tab key reaches {reached}, expected {controls}")
    await tab.run("document.getElementById('match-picture').focus() ?? 0")
    before = await tab.text("match-says")
    for _ in range(3):
        await tab.key("\ue014")
    expect(await until(15, lambda: tab.run(f"document.getElementById('match-says').textContent.includes('places') && document.getElementById('match-says').textContent !== {before!r}")),
           f"{tab.browser.name}: arrows do not move the rectangle")
    await tab.run("document.getElementById('motion-pause').focus() ?? 0")
    pressed = await tab.run("document.activeElement.getAttribute('aria-pressed')")
    await tab.key(" ")
    expect(await until(5, lambda: tab.run(f"document.activeElement.getAttribute('aria-pressed') !== '{pressed}'")), f"{tab.browser.name}: space does not pause")


async def axe(tab, script, how):
    await tab.browser.call("script.evaluate", expression=script, target={"context": tab.context}, awaitPromise=False)
    found = await tab.run("axe.run(document).then(r => ({passes: r.passes.length, violations: r.violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 120))])}))")
    expect(not found["violations"], f"axe, {how}: {found['violations']}")
    print(f"   axe, {how}: {found['passes']} rules pass, {len(found['violations'])} violations")


async def watch(name, dark, folder, address, script, arguments):
    """All that is tried in a browser: light or dark."""
    browser = Browser(name, folder, dark)
    await browser.start()
    try:
        await browser.call("script.addPreloadScript", functionDeclaration=WATCH)
        tab = await browser.open("about:blank")
        await tab.go(address)
        await until(20, lambda: tab.run("document.getElementById('state').textContent.includes('first picture')"))
        print(f"   {name}{', dark' if dark else ''}: {await tab.text('state')}")
        for width in (1280, 390) if name == "chromium" else ():
            await browser.call("browsingContext.setViewport", context=tab.context, viewport={"width": width, "height": 844})
            expect(await tab.run("document.documentElement.scrollWidth <= innerWidth"), f"the page is wider than {width} pixels")
            if script:
                await axe(tab, script, f"{'dark' if dark else 'light'}, {width} pixels wide")
            if arguments.screenshots:
                await asyncio.sleep(2)
                await tab.screenshot(Path(arguments.screenshots) / f"{'dark' if dark else 'light'}-{width}.png", width, 844)
        if not dark:
            await golden(tab, Path(arguments.pages))
            await drag(tab)
            await tab.run("document.getElementById('turned').click() ?? 0")
            await tools(tab, Path(arguments.seeds))
            await keyboard(tab)
        expect(await tab.run("violations.length") == 0, f"{name}: blocked by the policy: {await tab.run('violations')}")
        foreign = [url for url in browser.requests if not url.startswith((address, "about:", "blob:", "data:", "chrome"))]
        expect(not foreign, f"{name} requests {foreign[:3]}")
        expect(any(url.endswith("/cusight-simd.wasm") for url in browser.requests), f"{name}: no requests were seen")
    finally:
        with contextlib.suppress(Exception):
            await browser.close()


async def run(arguments):
    names = [name for name, program in (("chromium", "chromedriver"), ("firefox", "firefox-esr")) if shutil.which(program) and arguments.only in (None, name)]
    if not names:
        print("neither Chromium with chromedriver nor Firefox: skipped")
        return 77
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=arguments.pages))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    script = Path(arguments.axe).read_text() if arguments.axe and Path(arguments.axe).exists() else None
    if not script:
        print("   no axe.min.js: not checked by axe")
    with tempfile.TemporaryDirectory() as folder:
        await asyncio.gather(*(watch(name, False, folder, address, script, arguments) for name in names))
        if "chromium" in names:
            await watch("chromium", True, folder, address, script, arguments)
    return 1 if failures else 0


parser = argparse.ArgumentParser()
parser.add_argument("pages")
parser.add_argument("seeds")
parser.add_argument("--axe")
parser.add_argument("--only")
parser.add_argument("--screenshots")
browsers.patience = 3
sys.exit(asyncio.run(run(parser.parse_args())))
