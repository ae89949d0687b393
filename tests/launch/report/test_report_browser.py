"""The page of a report in a real browser: it draws, tells what is under the pointer, zooms, and has no errors."""

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launch_cases import call
from report_cases import mapping_file, run_directory

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: mallocmuzero[dev]")
BROWSER, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(BROWSER is None or DRIVER is None, reason="needs chromium and chromedriver")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1300,1000",
)
# Of an element, whether anything is painted on it, and how many colours.
COLOURS = """
const canvas = arguments[0];
const dots = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const seen = new Set();
for (let at = 0; at < dots.length; at += 4) seen.add(dots[at] << 16 | dots[at + 1] << 8 | dots[at + 2]);
return seen.size;
"""
WHEEL = """
const box = arguments[0].getBoundingClientRect();
const place = {clientX: box.left + box.width / 2, clientY: box.top + 60, bubbles: true, cancelable: true};
arguments[0].dispatchEvent(new WheelEvent("wheel", {deltaY: arguments[1], shiftKey: arguments[2], ...place}));
return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for option in (*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # selenium's own pipes
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        yield driver
        driver.quit()


@pytest.fixture
def page(tmp_path: Path, browser: Any) -> Iterator[Any]:
    path = tmp_path / "report.html"
    assert call("report", str(mapping_file(tmp_path)), "-o", str(path), "--objective", "msa")[0] == 0
    browser.get(path.as_uri())
    yield browser
    assert browser.get_log("browser") == []  # neither errors nor warnings, nor anything that was asked of a network


def one(browser: Any, selector: str) -> Any:
    return browser.find_element("css selector", selector)


def settled(browser: Any) -> None:
    browser.execute_script("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def hover(browser: Any, element: Any, dx: int, dy: int) -> None:
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    webdriver.ActionChains(browser, duration=0).move_to_element_with_offset(element, dx, dy).perform()
    settled(browser)


def span(browser: Any) -> tuple[float, float]:
    section = one(browser, "#map")
    return float(section.get_attribute("data-from")), float(section.get_attribute("data-to"))


def test_every_panel_is_drawn(page: Any) -> None:
    panels = page.find_elements("css selector", "canvas")
    assert [panel.get_attribute("data-panel") for panel in panels] == [
        *("memory-0", "copies-0", "traffic-0", "memory-1", "copies-1", "traffic-1", "live"),
    ]
    assert all(page.execute_script(COLOURS, panel) > 10 for panel in panels)
    headings = [heading.text for heading in page.find_elements("css selector", "h2")]
    assert len(headings) == 4
    assert "What changed, and what each change is worth" in headings


def test_the_pointer_is_told_buffer_instruction_and_bytes(page: Any) -> None:
    canvas, tip = one(page, "[data-panel=memory-1]"), one(page, "#tooltip")
    assert not tip.is_displayed()
    said = set()
    for dx in range(-400, 500, 100):
        for dy in (-100, 0, 100):
            hover(page, canvas, dx, dy)
            assert tip.is_displayed()
            said.add(tip.text)
    assert all("instruction" in text for text in said)
    stays = [text for text in said if "lies at" in text]
    assert len(stays) >= 3
    assert all("MiB" in text or "KiB" in text for text in stays)
    assert any("read by" in text or "written by" in text for text in stays)
    hover(page, one(page, "[data-panel=traffic-0]"), 0, 0)
    assert "HBM at" in tip.text
    hover(page, one(page, "h1"), 0, 0)
    assert not tip.is_displayed()


def test_it_zooms_and_pans_and_comes_back(page: Any) -> None:
    canvas = one(page, "[data-panel=memory-0]")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    whole = span(page)
    page.execute_script(WHEEL, canvas, 100, False)
    assert span(page) == whole  # out of the whole there is no way: the page scrolls
    for _ in range(4):
        page.execute_script(WHEEL, canvas, -200, False)
    near = span(page)
    assert near[1] - near[0] < 0.3 * (whole[1] - whole[0])
    assert whole[0] < near[0] < near[1] < whole[1]
    webdriver.ActionChains(page, duration=50).drag_and_drop_by_offset(canvas, 150, 0).perform()
    settled(page)
    moved = span(page)
    assert moved[0] < near[0]
    assert moved[1] - moved[0] == pytest.approx(near[1] - near[0])
    page.execute_script(WHEEL, canvas, -200, True)
    assert "MiB to" in one(page, ".readout").text or "KiB to" in one(page, ".readout").text
    one(page, "[data-choice=step]").click()
    settled(page)
    assert "instructions" in one(page, ".readout").text
    one(page, "[data-choice=time]").click()
    webdriver.ActionChains(page).double_click(canvas).perform()
    settled(page)
    assert span(page) == pytest.approx(whole)


def test_a_change_leads_to_its_place(page: Any) -> None:
    whole = span(page)
    rows = page.find_elements("css selector", "tr.go")
    assert rows
    rows[0].click()
    settled(page)
    near = span(page)
    assert near[1] - near[0] < whole[1] - whole[0]
    one(page, "[data-choice=change]").click()
    settled(page)
    assert "in HBM in the other mapping" in one(page, "#map").text


def test_both_schemes_are_drawn(page: Any) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = page.execute_script(ground)
    one(page, "#scheme").click()
    settled(page)
    assert page.execute_script(ground) != light
    assert page.execute_script(COLOURS, one(page, "[data-panel=memory-0]")) > 10


def test_a_page_of_a_run_has_its_curves(tmp_path: Path, browser: Any) -> None:
    path = tmp_path / "report.html"
    assert call("report", str(run_directory(tmp_path)), "-o", str(path), "--changes", "5")[0] == 0
    browser.get(path.as_uri())
    charts = browser.find_elements("css selector", ".chart svg")
    assert len(charts) == 2
    hover(browser, charts[0], 20, 0)
    assert "% of XLA's default" in one(browser, "#tooltip").text
    assert browser.get_log("browser") == []


def test_a_page_of_a_tuning_has_the_compilers_answers(tmp_path: Path, browser: Any) -> None:
    path, data = tmp_path / "report.html", Path(__file__).parent / "data"
    arguments = ("--program", str(data / "my_model.json.gz"), "-o", str(path))
    assert call("report", str(data / "tuning.json"), *arguments)[0] == 0
    browser.get(path.as_uri())
    assert "4 sets of options" in one(browser, "#page").text
    one(browser, "details summary").click()
    assert "xla_tpu_msa_sort_order_overrides" in one(browser, "details pre").text
    assert browser.get_log("browser") == []
