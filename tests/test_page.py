"""The page of `show` in a real browser: headless Chromium, driven by selenium."""

import re
import shutil
from xml.etree import ElementTree as ET

import keras
import pytest
from keras import layers

import ramet
from shown import HOSTILE, hostile, matcher

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = [
    pytest.mark.one_backend,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver (chromium-driver)"
    ),
]

SVG = "http://www.w3.org/2000/svg"

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--window-size=1280,860",
)


@pytest.fixture(scope="module")
def driver():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield made
    made.quit()


class Page:
    """A page that is open, and the hands to use it."""

    def __init__(self, driver, path, *models, **options):
        ramet.show(*models, to=path, **options)
        self.driver = driver
        driver.get_log("browser")
        driver.get_log("performance")
        driver.get(path.as_uri())

    def ask(self, script, *args):
        return self.driver.execute_script(f"return {script}", *args)

    def text(self, id_):
        return self.ask("document.getElementById(arguments[0]).innerText", id_)

    def mouse(self, name, *, double=False):
        from selenium.webdriver.common.action_chains import ActionChains

        x, y = self.ask("ramet.placeOf(arguments[0])", name)
        chain = ActionChains(self.driver)
        chain.w3c_actions.pointer_action.move_to_location(int(x), int(y))
        (chain.double_click() if double else chain.click()).perform()

    def search(self, text):
        from selenium.webdriver.common.by import By

        field = self.driver.find_element(By.ID, "search")
        field.clear()
        field.send_keys(text)
        return field

    def selected(self):
        return self.ask("ramet.state.selected")

    def boxes(self):
        return {*self.ask("ramet.boxes()")}

    def fill(self, name):
        """The colour of a node."""
        script = """getComputedStyle(document.querySelector(
            `[data-key="${arguments[0]}"] > .box`)).fill"""
        return tuple(map(int, re.findall(r"\d+", self.ask(script, name))))

    def focused(self):
        return self.ask("document.activeElement.dataset.key")

    def keys(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def complaints(self):
        """Errors in the console."""
        log = self.driver.get_log("browser")
        # Reading pixels, which only the tests do, is what the other level complains about.
        return [entry["message"] for entry in log if entry["level"] == "SEVERE"]

    def loads(self):
        """Everything that the page asked for besides itself."""
        sent = [e["message"] for e in self.driver.get_log("performance")]
        return [m for m in sent if "Network.requestWillBeSent" in m and '"http' in m]


def test_the_page_opens_without_a_network_or_errors(driver, tmp_path):
    page = Page(driver, tmp_path / "model.html", matcher())
    assert driver.title == "matcher"
    assert "442 parameters" in page.text("panel")
    assert "shared" in page.text("legend")
    assert page.complaints() == []
    assert page.loads() == []


def test_search_finds_highlights_and_centers(driver, tmp_path):
    from selenium.webdriver.common.keys import Keys

    page = Page(driver, tmp_path / "model.html", matcher())
    field = page.search("TOPIC")
    assert page.text("count") == "1 of 1"
    assert page.selected() == "topic"
    assert page.ask("document.querySelectorAll('#graph .hit').length") == 1
    x, y = page.ask("ramet.placeOf('topic')")
    box = page.ask("document.getElementById('graph').getBoundingClientRect().toJSON()")
    assert abs(x - box["left"] - box["width"] / 2) < 2
    assert abs(y - box["top"] - box["height"] / 2) < 2
    page.search("embedding")
    assert page.text("count") == "1 of 2"
    field.send_keys(Keys.ENTER)
    assert page.selected() == "embed#2"
    page.search("lstm")  # it is in the nested model
    assert page.selected() == "encoder/lstm"
    page.search("nothing like it")
    assert page.text("count") == "0 of 0"
    assert page.complaints() == []


def test_search_looks_at_shapes_and_arguments(driver, tmp_path):
    page = Page(driver, tmp_path / "model.html", matcher())
    for query, key in (("[None, 5]", "topic"), ("mask_zero=true", "embed"), ("units=1", "score")):
        page.search(query)
        assert page.selected() == key, query


def test_a_click_shows_config_shapes_and_statistics(driver, tmp_path):
    page = Page(driver, tmp_path / "model.html", matcher())
    page.mouse("topic")
    panel = page.text("panel")
    assert panel.split()[1:3] == ["topic", "Dense"]
    assert "float32[None, 5]" in panel
    assert "45 parameters" in panel
    assert "units" in panel
    assert "GlorotUniform()" in panel
    assert "mean" in panel
    assert page.ask("document.querySelectorAll('#panel .histogram rect').length") == 24
    assert "0 0 0 0 0" in panel, "the values of a small bias"
    page.mouse("embed")
    assert "shared" in page.text("panel")
    assert "carries a mask" in page.text("panel")
    assert page.complaints() == []


def test_a_node_says_what_matters(driver, tmp_path):
    page = Page(driver, tmp_path / "model.html", matcher())
    script = "document.querySelector(`[data-key='${arguments[0]}']`).textContent"
    assert "Dense · 5 units" in page.ask(script, "topic")
    assert "Embedding · 8 wide" in page.ask(script, "embed")


def test_a_nested_model_unfolds_in_place(driver, tmp_path):
    from selenium.webdriver.common.by import By

    page = Page(driver, tmp_path / "model.html", matcher())
    folded = page.boxes()
    assert "encoder/proj" not in folded
    page.mouse("encoder", double=True)
    assert page.boxes() == folded | {"encoder/tokens", "encoder/lstm", "encoder/proj"}
    page.mouse("encoder/proj")
    assert "20 parameters" in page.text("panel")
    page.ask("ramet.fold('encoder')")
    assert page.boxes() == folded
    page.mouse("encoder#2")
    driver.find_element(By.CSS_SELECTOR, "#panel .open").click()
    assert "encoder#2/proj" in page.boxes()
    driver.find_element(By.ID, "fold").click()
    assert page.boxes() == folded
    driver.find_element(By.ID, "unfold").click()
    assert {"encoder/lstm", "encoder#2/lstm"} <= page.boxes()
    assert page.complaints() == []


def test_an_address_leads_to_a_node(driver, tmp_path):
    page = Page(driver, tmp_path / "model.html", matcher())
    page.mouse("topic")
    assert page.ask("location.hash") == "#topic"
    driver.get("about:blank")
    driver.get((tmp_path / "model.html").as_uri() + "#encoder%232/lstm")
    assert page.selected() == "encoder#2/lstm"
    assert "LSTM" in page.text("panel")
    driver.get("about:blank")
    driver.get((tmp_path / "model.html").as_uri() + "#no%20such%20node")
    assert page.selected() is None
    assert page.complaints() == []


def test_every_node_is_reached_and_told_by_keyboard(driver, tmp_path):
    from selenium.webdriver.common.keys import Keys

    page = Page(driver, tmp_path / "model.html", matcher())
    page.ask("document.querySelector('#graph .node[tabindex=\"0\"]').focus()")
    assert page.focused() == "question"
    label = "document.activeElement.getAttribute('aria-label')"
    assert page.ask(label) == "question, InputLayer, int32[None, 6]"
    page.keys(Keys.ARROW_DOWN)
    assert page.focused() == "embed"
    told = "embed, Embedding, 8 wide, float32[None, 6, 8], carries a mask, shared, reads question"
    assert page.ask(label) == told
    page.keys(Keys.ARROW_DOWN)
    assert page.ask("document.activeElement.getAttribute('aria-expanded')") == "false"
    page.keys(Keys.ENTER)
    assert page.focused() == "encoder"
    assert page.ask("document.activeElement.getAttribute('aria-expanded')") == "true"
    met = []
    for _ in range(3):
        page.keys(Keys.ARROW_DOWN)
        met.append(page.focused())
    assert met == ["encoder/tokens", "encoder/lstm", "encoder/proj"]
    page.keys(Keys.ARROW_DOWN)
    assert page.focused() == "pool"
    page.keys(Keys.ARROW_RIGHT)
    assert page.focused() == "pool#2"
    page.keys(Keys.END)
    assert page.focused() == "topic"
    page.keys(Keys.ARROW_UP)
    assert page.focused() == "both"
    page.keys(Keys.ESCAPE, Keys.ESCAPE)
    assert page.ask("getComputedStyle(document.getElementById('panel')).display") == "none"
    assert page.complaints() == []


def test_what_is_shown_is_saved_as_a_picture(driver, tmp_path):
    page = Page(driver, tmp_path / "model.html", matcher())
    page.ask("ramet.fold('encoder')")
    picture = page.ask("ramet.svgText()")
    names = {text.text for text in ET.fromstring(picture).iter(f"{{{SVG}}}text")}  # noqa: S314 our own
    assert {"encoder", "lstm", "topic"} <= names
    assert "var(--" not in picture
    size = driver.execute_async_script(
        "ramet.pngBlob().then((blob) => arguments[0]([blob.type, blob.size]))"
    )
    assert size[0] == "image/png"
    assert size[1] > 5000
    assert page.complaints() == []


def test_two_models_are_coloured_by_difference(driver, tmp_path):
    model = matcher()
    graph = ramet.trace(model).configure("topic", units=7).remove("score", reconnect="both")
    other = graph.insert_after("both", layers.Dropout(0.1, name="drop")).build(name="newer")
    page = Page(driver, tmp_path / "model.html", model, other)
    assert page.text("title") == "matcher → newer"
    fills = {"drop": "added", "score": "removed", "topic": "changed"}
    for name, difference in fills.items():
        script = "getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim()"
        wanted = page.ask(script, f"--{difference}-fill")
        assert page.fill(name) == tuple(bytes.fromhex(wanted[1:])), name
    changes = page.text("panel")
    assert "ADDED (1)" in changes
    assert "units=5 is now 7" in changes, "each difference is listed with its reason"
    page.mouse("topic")
    assert "before" in page.text("panel") or "differ" in page.text("panel").lower()
    assert page.ask("document.querySelector('#panel del').textContent") == "5"
    assert page.complaints() == []


def test_calls_are_shaded_by_what_they_cost(driver, tmp_path):
    page = Page(driver, tmp_path / "model.html", matcher(), cost="macs")
    script = "getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim()"
    steps = {"encoder#2": 5, "topic": 2, "score": 1, "both": None}
    for name, step in steps.items():
        wanted = page.ask(script, f"--step{step}" if step else "--paper")
        if len(wanted) == len("#fff"):
            wanted = "#" + "".join(2 * sign for sign in wanted[1:])
        assert page.fill(name) == tuple(bytes.fromhex(wanted[1:])), name
    assert "share of MACs:" in page.text("legend")
    assert "up to 0.5 %" in page.text("legend")
    page.mouse("topic")
    assert "40 MACs (1.3 %)" in page.text("panel")
    assert "var(--step" not in page.ask("ramet.svgText()")
    assert page.complaints() == []


def test_hostile_texts_do_not_run(driver, tmp_path):
    page = Page(driver, tmp_path / "model.html", hostile())
    page.mouse("noted")
    assert HOSTILE in page.text("panel")
    assert page.ask("document.querySelectorAll('script').length") == 2
    assert page.ask("document.querySelectorAll('#panel script, i b').length") == 0
    assert page.complaints() == []


def test_dark_is_dark(driver, tmp_path):
    page = Page(driver, tmp_path / "model.html", matcher())
    light = page.fill("both")
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        dark = page.fill("both")
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert min(light) > 200
    assert max(dark) < 80


def test_on_a_narrow_screen_the_panel_is_below(driver, tmp_path):
    size = driver.get_window_size()
    driver.set_window_size(520, 800)
    try:
        page = Page(driver, tmp_path / "model.html", matcher())
        assert (
            page.ask("getComputedStyle(document.getElementById('main')).flexDirection") == "column"
        )
        page.ask("ramet.select('topic')")
        stage, panel = (
            page.ask(f"document.getElementById('{name}').getBoundingClientRect().toJSON()")
            for name in ("stage", "panel")
        )
        assert panel["top"] >= stage["bottom"] - 1
        assert panel["width"] == stage["width"]
    finally:
        driver.set_window_size(size["width"], size["height"])


def test_a_model_of_800_layers_begins_folded_and_unfolds(driver, tmp_path):
    model = keras.applications.EfficientNetB7(weights=None)
    page = Page(driver, tmp_path / "model.html", model)
    assert page.ask("ramet.data.views[0].nodes.length") > 800
    assert len(page.boxes()) < 40
    assert page.ask("ramet.state.scale") >= 0.6, "the first view is readable"
    timing = """(() => {
        const start = performance.now();
        document.getElementById("unfold").click();
        return performance.now() - start;
    })()"""
    assert page.ask(timing) < 5000, "milliseconds"
    assert len(page.boxes()) > 800
    assert page.ask("document.getElementById('minimap').style.visibility") == "visible"
    assert page.ask("Number(document.getElementById('minimap').getAttribute('width'))") >= 48, (
        "not a hairline"
    )
    assert page.ask("Number(document.querySelector('#minimap .seen').getAttribute('height'))") >= 3
    page.search("top_conv")
    assert page.selected() == "top_conv"
    assert page.complaints() == []
