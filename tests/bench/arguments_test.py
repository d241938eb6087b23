"""What bench/arguments.py makes of a command line."""

import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[2] / "bench"))

import arguments  # noqa: E402


class ParserTest(unittest.TestCase):
    def setUp(self):
        self.parser = arguments.parser_of("Measures.\n\n  As written.", runs=3,
                                          n_ctx=512, tokens=32)

    def test_counts_have_their_defaults_and_can_be_given(self):
        args = self.parser.parse_args(["--n-ctx", "64"])
        self.assertEqual((args.runs, args.n_ctx, args.tokens), (3, 64, 32))

    def test_the_help_is_the_text_as_it_is_written(self):
        text = self.parser.format_help()
        self.assertIn("Measures.\n\n  As written.", text)
        self.assertIn("of a reply", text)


if __name__ == "__main__":
    unittest.main()
