"""Looks at a report as a reader would: opens it, points at charts, turns the lights off, holds a phone, prints."""
import json
import re
import sys
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

failed = False


def check(ok, what):
    global failed
    print(("ok   " if ok else "FAIL ") + what)
    failed |= not ok


def open_browser():
    options = Options()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def show(browser, url, width, height, scheme):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                            {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    browser.get(url)


def parse(colour):
    """rgb(1, 2, 3), rgba(1, 2, 3, .5) or color(srgb .1 .2 .3 / .5) as red, green, blue, alpha from 0 to 1."""
    numbers = [float(x) for x in re.findall(r"[\d.]+(?:e-?\d+)?", colour[colour.index("("):])]
    scale = 1 if colour.startswith("color") else 255
    return [c / scale for c in numbers[:3]] + [numbers[3] if len(numbers) > 3 else 1]


def luminance(colour):
    parts = parse(colour)[:3] if isinstance(colour, str) else colour
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(browser, selector):
    """Of the text against the papers it stands on, one shining through the other."""
    text, papers = browser.execute_script("""
        const papers = [], first = document.querySelector(arguments[0]);
        for (let e = first; e; e = e.parentElement) papers.push(getComputedStyle(e).backgroundColor);
        return [getComputedStyle(first).color, papers];""", selector)
    paper = [1, 1, 1]
    for r, g, b, alpha in map(parse, reversed(papers)):
        paper = [alpha * c + (1 - alpha) * below for c, below in zip((r, g, b), paper)]
    a, b = sorted((luminance(text), luminance(paper)))
    return (b + 0.05) / (a + 0.05)


def point(browser, shape):
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", shape)
    time.sleep(0.1)  # the event of scrolling hides the tip
    ActionChains(browser).move_to_element(shape).perform()
    tip = browser.find_element(By.CSS_SELECTOR, ".tip")
    return tip.text if tip.is_displayed() else ""


# Text that is cut off or runs out of its box, by element: what a reader would complain about.
CLIPPED = """
const width = document.documentElement.clientWidth, bad = [];
const name = (e) => e.tagName + '.' + (e.getAttribute('class') || '') + ' ' + e.textContent.trim().slice(0, 40);
for (const d of document.querySelectorAll('details:not(.all)')) d.open = true;
for (const e of document.body.querySelectorAll('*')) {
    if (e.closest('svg') || e.closest('.scroll table') || e.closest('details:not([open])') || e.hidden) continue;
    const box = e.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1)) bad.push('outside: ' + name(e));
    const style = getComputedStyle(e);
    if (style.overflowX === 'hidden' && e.scrollWidth > e.clientWidth + 1) bad.push('cut: ' + name(e));
}
// A table may be moved sideways in its box on a wide screen only if it has very many columns.
for (const e of document.querySelectorAll('.scroll'))
    if (e.scrollWidth > e.clientWidth + 1) bad.push('sideways: ' + name(e));
for (const t of document.querySelectorAll('svg.chart text')) {
    const chart = t.closest('svg').getBoundingClientRect(), box = t.getBoundingClientRect();
    if (box.left < chart.left - 1 || box.right > chart.right + 1 || box.top < chart.top - 1 || box.bottom > chart.bottom + 1)
        bad.push('out of its chart: ' + t.textContent);
}
// Labels of one axis must not run into each other.
for (const c of document.querySelectorAll('svg.chart')) {
    const boxes = [...c.querySelectorAll('text:not([transform])')].map((t) => [t.textContent, t.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; i++)
        for (let k = i + 1; k < boxes.length; k++) {
            const [a, p] = boxes[i], [b, q] = boxes[k];
            if (p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 2 && q.top < p.bottom - 2)
                bad.push('labels overlap: ' + a + ' / ' + b);
        }
}
return bad;
"""


def look(browser, url, name, width, height, scheme):
    show(browser, url, width, height, scheme)
    charts = browser.find_elements(By.CSS_SELECTOR, "svg.chart")
    check(len(charts) >= 10, f"{name}: {len(charts)} charts")
    check(all(c.size["width"] > 200 and c.size["height"] > 100 for c in charts), f"{name}: charts have a size")
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    check(wide <= width, f"{name}: {wide} pixels wide, window {width}")
    clipped = browser.execute_script(CLIPPED)
    check(not clipped, f"{name}: nothing is cut off {clipped[:6]}")
    paper = luminance(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    check(paper < 0.1 if scheme == "dark" else paper > 0.8, f"{name}: paper of luminance {paper:.2f}")
    for selector in ("body", ".lead", ".note", "figcaption", "del", "ins", "nav a", "thead small", ".stands", ".fell",
                     "td > small", ".harm5", ".confusion .hit4", ".flips .who"):
        if browser.find_elements(By.CSS_SELECTOR, selector):
            ratio = contrast(browser, selector)
            check(ratio >= 4.5, f"{name}: contrast of {selector} {ratio:.1f}")
    for selector, part in (("svg.chart circle[data-tip]", "%"), ("svg.chart rect[data-tip]", "to"), ("svg.chart image[data-steps]", "about")):
        shapes = browser.find_elements(By.CSS_SELECTOR, selector)
        text = point(browser, max(shapes, key=lambda e: e.size["width"] * e.size["height"]))
        check(part in text, f"{name}: pointing at {selector} says '{text}'")
    errors = [e["message"] for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
    check(not errors, f"{name}: no errors in the console {errors}")
    asked = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    urls = {m["params"]["request"]["url"] for m in asked if m["method"] == "Network.requestWillBeSent"}
    outside = [u for u in urls if not u.startswith(("file:", "data:"))]
    check(not outside, f"{name}: nothing loaded {outside}")


def search(browser, url):
    """The list of all flipped texts: filtered by a word, by a model; all there with scripts off."""
    show(browser, url, 1400, 900, "light")
    browser.execute_script("document.querySelector('details.all').open = true")
    shown = lambda: browser.execute_script("return [...document.querySelectorAll('ul.flips > li')].filter((e) => e.offsetHeight).length")
    total = shown()
    field = browser.find_element(By.CSS_SELECTOR, "form.filter input")
    word = browser.execute_script("return document.querySelector('ul.flips ins').textContent")
    field.send_keys(word)
    some = shown()
    check(0 < some < total, f"search: '{word}' shows {some} of {total}")
    field.send_keys(" nosuchword")
    check(shown() == 0, "search: a word that is nowhere shows none")
    field.clear()
    field.send_keys("x")
    field.send_keys("\b")
    check(shown() == total, "search: all again")
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(url)
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    there = len(browser.find_elements(By.CSS_SELECTOR, "ul.flips > li"))
    check(there == total, f"scripts off: {there} of {total} texts are there")
    check(not browser.find_element(By.CSS_SELECTOR, "form.filter").is_displayed(), "scripts off: no form that does nothing")


def print_it(browser, url):
    show(browser, url, 718, 1000, "light")  # A4 within its margins
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    clipped = browser.execute_script(CLIPPED)
    check(not clipped, f"print: nothing is cut off {clipped[:6]}")
    pdf = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    check(len(pdf) > 20000, f"print: {len(pdf) * 3 // 4} bytes of PDF")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def attacked(browser, url):
    """A page about hostile names and texts: it shows them, and nothing of theirs runs."""
    show(browser, url, 1180, 900, "light")
    check(browser.execute_script("return typeof window.owned") == "undefined", "hostile: no script ran")
    check(not browser.find_elements(By.CSS_SELECTOR, "img, iframe, object"), "hostile: no element was made")
    check("window.owned" in browser.find_element(By.TAG_NAME, "body").text, "hostile: the text is shown")
    # Even a script that got into the page would not run.
    ran = browser.execute_script("""
        const s = document.createElement('div');
        s.innerHTML = '<img src=x onerror="window.owned = 1">';
        document.body.appendChild(s);
        return new Promise((done) => setTimeout(() => done(window.owned), 200));""")
    check(ran is None, "hostile: the policy stops handlers")


def main(page, hostile, shots=None):
    url = Path(page).resolve().as_uri()
    browser = open_browser()
    try:
        for name, width, height, scheme in (("wide light", 1400, 900, "light"), ("wide dark", 1400, 900, "dark"),
                                            ("light", 1180, 900, "light"),
                                            ("phone", 400, 844, "light"), ("phone dark", 400, 844, "dark")):
            look(browser, url, name, width, height, scheme)
            if shots:
                tall = browser.execute_script("return document.documentElement.scrollHeight")
                show(browser, url, width, tall, scheme)
                browser.save_screenshot(f"{shots}/{name.replace(' ', '-')}.png")
        search(browser, url)
        print_it(browser, url)
        attacked(browser, Path(hostile).resolve().as_uri())
    finally:
        browser.quit()
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
