"""The page of `show` in a real browser: headless Chromium, driven by selenium."""

import shutil
import time

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

    def __init__(self, driver, path, *models):
        ramet.show(*models, to=path)
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
        return self.ask("ramet.data.views[ramet.state.view].nodes[ramet.state.selected]?.name")

    def pixel(self, name):
        """The colour of a node, where it has no text."""
        self.ask("ramet.draw()")
        script = """(() => {
            const canvas = document.getElementById("graph");
            const [x, y] = ramet.placeOf(arguments[0]);
            const box = canvas.getBoundingClientRect();
            const scale = ramet.state.scale;
            const at = [x - box.left + 60 * scale, y - box.top - 20 * scale];
            const ratio = canvas.width / box.width;
            const [left, top] = at.map((place) => place * ratio);
            return [...canvas.getContext("2d").getImageData(left, top, 1, 1).data];
        })()"""
        return tuple(self.ask(script, name)[:3])

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
    assert page.ask("[...ramet.state.hits.get(ramet.state.view)].length") == 1
    x, y = page.ask("ramet.placeOf('topic')")
    box = page.ask("document.getElementById('graph').getBoundingClientRect().toJSON()")
    assert abs(x - box["left"] - box["width"] / 2) < 2
    assert abs(y - box["top"] - box["height"] / 2) < 2
    page.search("embedding")
    assert page.text("count") == "1 of 2"
    field.send_keys(Keys.ENTER)
    assert page.selected() == "embed#2"
    page.search("lstm")  # it is in the nested model
    assert page.text("path").split() == ["matcher", "/", "encoder"]
    assert page.selected() == "lstm"
    page.search("nothing like it")
    assert page.text("count") == "0 of 0"
    assert page.complaints() == []


def test_a_click_shows_config_shapes_and_statistics(driver, tmp_path):
    page = Page(driver, tmp_path / "model.html", matcher())
    page.mouse("topic")
    panel = page.text("panel")
    assert panel.split()[1:3] == ["topic", "Dense"]
    assert "float32[None, 5]" in panel
    assert "45 parameters" in panel
    assert "units" in panel
    assert "GlorotUniform()" in panel
    assert "kernel" in panel
    assert "mean" in panel
    page.mouse("embed")
    assert "shared" in page.text("panel")
    assert "carries a mask" in page.text("panel")
    assert page.complaints() == []


def test_a_nested_model_opens_and_closes(driver, tmp_path):
    from selenium.webdriver.common.by import By

    page = Page(driver, tmp_path / "model.html", matcher())
    page.mouse("encoder", double=True)
    assert page.text("path").split() == ["matcher", "/", "encoder"]
    page.mouse("proj")
    assert "20 parameters" in page.text("panel")
    driver.find_element(By.CSS_SELECTOR, "#path button").click()
    assert page.text("path") == "matcher"
    assert page.selected() == "encoder"
    driver.find_element(By.CSS_SELECTOR, "#panel .open").click()
    assert page.text("path").split() == ["matcher", "/", "encoder"]
    assert page.complaints() == []


def test_two_models_are_coloured_by_difference(driver, tmp_path):
    model = matcher()
    graph = ramet.trace(model).configure("topic", units=7).remove("score", reconnect="both")
    other = graph.insert_after("both", layers.Dropout(0.1, name="drop")).build()
    page = Page(driver, tmp_path / "model.html", model, other)
    fills = {"drop": "added", "score": "removed", "topic": "changed"}
    for name, difference in fills.items():
        script = "getComputedStyle(document.documentElement).getPropertyValue(arguments[0]).trim()"
        wanted = page.ask(script, f"--{difference}-fill")
        assert page.pixel(name) == tuple(bytes.fromhex(wanted[1:])), name
    page.mouse("topic")
    assert "before" in page.text("panel")
    assert page.ask("document.querySelector('#panel del').textContent") == "5"
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
    light = page.pixel("both")
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    try:
        end = time.monotonic() + 10
        dark = page.pixel("both")
        while max(dark) >= 80 and time.monotonic() < end:  # the page hears of it by an event
            time.sleep(0.1)
            dark = page.pixel("both")
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert min(light) > 200
    assert max(dark) < 80


def test_a_model_of_800_layers_loads_and_pans(driver, tmp_path):
    model = keras.applications.EfficientNetB7(weights=None)
    start = time.process_time()
    page = Page(driver, tmp_path / "model.html", model)
    assert time.process_time() - start < 60
    assert page.ask("ramet.data.views[0].nodes.length") > 800
    timing = """(() => {
        const pan = (steps) => {
            let least = Infinity;
            for (let i = 0; i < steps; i++) {
                const start = performance.now();
                ramet.state.y -= 40; ramet.draw();
                least = Math.min(least, performance.now() - start);
            }
            return least;
        };
        const near = pan(50);
        document.getElementById("fit").click();
        return [near, pan(10)];
    })()"""
    near, far = page.ask(timing)
    assert near < 50, "milliseconds for the fastest frame"
    assert far < 250, "milliseconds for the fastest frame with every layer in sight"
    page.search("top_conv")
    assert page.selected() == "top_conv"
    assert page.complaints() == []
