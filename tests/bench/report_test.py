"""Tables and the chart of bench/compare, from figures that are given."""

import pathlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.append(str(pathlib.Path(__file__).parents[2] / "bench" / "compare"))

import report  # noqa: E402

RESULT = {
    "date": "2026-01-02", "cpu": "A <fast> CPU", "threads": 2,
    "versions": {"plimsoll": "0.1.0", "peer": "9.8.7"},
    "models": {
        "small": {
            "decode1": {"plimsoll": [30.0, 10.0, 40.0],
                        "peer": [10.0, 10.0, 10.0]},
            "peak-rss": {"plimsoll": [64 * 2**20], "peer": [128 * 2**20]},
        },
        "large": {"first-token": {"plimsoll": [0.25], "peer": [0.5]}},
    },
}
SVG = "{http://www.w3.org/2000/svg}"


class ReportTest(unittest.TestCase):

    def test_a_ratio_is_the_median_of_the_runs_ratios(self):
        # The ratio of the medians would be 3.
        figure = {"plimsoll": [30.0, 10.0, 40.0], "peer": [10.0, 10.0, 80.0]}
        self.assertEqual(report.ratios(figure), (1.0, 0.5, 3.0))

    def test_tables_say_both_sides_the_spread_and_the_conditions(self):
        line = ("| small | decode of 1 | 30 tokens/s | 10 tokens/s"
                " | **3.00** (1.00–4.00) |")
        text = report.markdown(RESULT)
        self.assertIn(line, text.splitlines())
        self.assertIn("|  | peak memory (less is better) | 64 MiB | 128 MiB"
                      " | **0.50** (0.50–0.50) |", text.splitlines())
        for part in ("2026-01-02", "2 threads", "0.1.0", "9.8.7", "3 runs"):
            self.assertIn(part, text)
            self.assertIn(part, report.table(RESULT))
        self.assertIn("3.00  (1.00..4.00)", report.table(RESULT))

    def test_the_chart_has_a_bar_for_each_ratio_to_one_scale(self):
        root = xml.etree.ElementTree.fromstring(report.svg(RESULT))
        bars = [rect for rect in root.iter(SVG + "rect")
                if rect.find(SVG + "title") is not None]
        widths = [float(bar.get("width")) for bar in bars]
        self.assertEqual([bar.get("class") for bar in bars], ["u", "l", "l"])
        for width, ratio in zip(widths, (3.0, 0.5, 0.5)):
            self.assertAlmostEqual(width / widths[0], ratio / 3, places=2)
        one = next(path for path in root.iter(SVG + "path")
                   if path.get("class") == "one")
        left = float(bars[0].get("x"))
        at = float(one.get("d")[1:].split()[0])
        self.assertAlmostEqual((at - left) * 3, widths[0], delta=0.3)
        texts = [text.text for text in root.iter(SVG + "text")]
        self.assertIn("3.00  (1.00–4.00)", texts)
        self.assertTrue(any("A <fast> CPU" in text for text in texts))

    def test_everything_stays_inside_the_chart(self):
        root = xml.etree.ElementTree.fromstring(report.svg(RESULT))
        height = float(root.get("height"))
        for element in root.iter():
            if element.get("y"):
                self.assertLess(float(element.get("y")), height)
            if element.get("x"):
                self.assertLess(float(element.get("x")), report.WIDTH)

    def test_no_line_is_cut_at_the_right_edge(self):
        result = dict(RESULT, cpu="AMD EPYC (AVX3_DL_WINOGRAD)")
        root = xml.etree.ElementTree.fromstring(report.svg(result))
        character = 6.8  # pixels of one, on average, at 12 pixels a line
        for text in root.iter(SVG + "text"):
            if text.get("class") != "e":
                end = float(text.get("x")) + character * len(text.text)
                self.assertLess(end, report.WIDTH, text.text)

    def test_only_the_lines_between_two_marks_change(self):
        text = "a\n<begin>\nold\nold\n<end>\nb\n"
        wanted = "a\n<begin>\nnew\n<end>\nb\n"
        self.assertEqual(
            report.replace_between(text, "<begin>", "<end>", "new"), wanted)
        for spoiled in ("a\n<begin>\nb\n", "a\n<end>\nb\n", ""):
            with self.assertRaises(ValueError):
                report.replace_between(spoiled, "<begin>", "<end>", "new")


if __name__ == "__main__":
    unittest.main()
