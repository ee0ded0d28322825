"""Looks at a report as a reader would: opens it, points at charts, turns the lights off, holds a phone, prints."""
import json
import sys
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


def luminance(colour):
    parts = [int(x) / 255 for x in colour[colour.index("(") + 1:-1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(browser, selector):
    """Of the text against the paper it stands on."""
    text, paper = browser.execute_script("""
        let e = document.querySelector(arguments[0]), colour = getComputedStyle(e).color, p = e;
        while (p && getComputedStyle(p).backgroundColor === 'rgba(0, 0, 0, 0)') p = p.parentElement;
        return [colour, getComputedStyle(p || document.body).backgroundColor];""", selector)
    a, b = sorted((luminance(text), luminance(paper)))
    return (b + 0.05) / (a + 0.05)


def point(browser, shape):
    browser.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", shape)
    ActionChains(browser).move_to_element(shape).perform()
    tip = browser.find_element(By.CSS_SELECTOR, ".tip")
    return tip.text if tip.is_displayed() else ""


def look(browser, url, name, width, height, scheme):
    show(browser, url, width, height, scheme)
    charts = browser.find_elements(By.CSS_SELECTOR, "svg.chart")
    check(len(charts) >= 8, f"{name}: {len(charts)} charts")
    check(all(c.size["width"] > 200 and c.size["height"] > 100 for c in charts), f"{name}: charts have a size")
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    check(wide <= width, f"{name}: {wide} pixels wide, window {width}")
    paper = luminance(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    check(paper < 0.1 if scheme == "dark" else paper > 0.8, f"{name}: paper of luminance {paper:.2f}")
    for selector in ("body", ".lead", ".note", "figcaption", "del", "ins", "nav a", "thead small", ".stands"):
        if browser.find_elements(By.CSS_SELECTOR, selector):
            ratio = contrast(browser, selector)
            check(ratio >= 4.5, f"{name}: contrast of {selector} {ratio:.1f}")
    for selector, part in (("svg.chart circle[data-tip]", "%"), ("svg.chart rect[data-tip]", "to"), ("svg.chart image[data-steps]", "unit")):
        shapes = browser.find_elements(By.CSS_SELECTOR, selector)
        text = point(browser, shapes[len(shapes) // 2 if selector != "svg.chart circle[data-tip]" else 0])
        check(part in text, f"{name}: pointing at {selector} says '{text}'")
    errors = [e["message"] for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
    check(not errors, f"{name}: no errors in the console {errors}")
    asked = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    urls = {m["params"]["request"]["url"] for m in asked if m["method"] == "Network.requestWillBeSent"}
    outside = [u for u in urls if not u.startswith(("file:", "data:"))]
    check(not outside, f"{name}: nothing loaded {outside}")


def main(page, shots=None):
    url = Path(page).resolve().as_uri()
    browser = open_browser()
    try:
        for name, width, height, scheme in (("light", 1180, 900, "light"), ("dark", 1180, 900, "dark"),
                                            ("phone", 390, 844, "light"), ("phone dark", 390, 844, "dark")):
            look(browser, url, name, width, height, scheme)
            if shots:
                tall = browser.execute_script("return document.documentElement.scrollHeight")
                show(browser, url, width, tall, scheme)
                browser.save_screenshot(f"{shots}/{name.replace(' ', '-')}.png")
        show(browser, url, 1180, 900, "light")
        pdf = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
        check(len(pdf) > 20000, f"print: {len(pdf) * 3 // 4} bytes of PDF")
    finally:
        browser.quit()
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
