"""What bench/compare/sse.py finds in the bytes of a reply, however they come."""

import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).parents[2] / "bench" / "compare"))

import sse  # noqa: E402

EVENTS = [b'data: {"text": "data: {"}\n\n', b": loading 42 %\n\n",
          b'data: {"usage": {"completion_tokens": 7}}\n\n',
          b'data: {"usage": {"completion_tokens": 12}}\n\n']
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = [b"%x\r\n%s\r\n" % (len(event), event) for event in EVENTS]
DATA = HEAD + b"".join(CHUNKS) + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class ReplyTest(unittest.TestCase):

    def test_events_have_the_time_of_their_begin_byte_by_byte(self):
        reply = sse.Reply()
        for now, byte in enumerate(DATA):
            reply.add(bytes([byte]), now)
        marks = [DATA.index(event) + len(b"data: ") - 1
                 for event in EVENTS if event.startswith(b"data")]
        self.assertEqual(reply.event_times(), marks)

    def test_events_that_come_together_have_one_time(self):
        reply = sse.Reply()
        reply.add(DATA[:len(HEAD)], 1)
        reply.add(DATA[len(HEAD):], 2)
        self.assertEqual(reply.event_times(), [2, 2, 2])

    def test_a_reply_is_whole_with_its_last_line(self):
        reply, end = sse.Reply(), DATA.index(b"[DONE]") + len(b"[DONE]\n")
        reply.add(DATA[:end - 1], 1)
        self.assertFalse(reply.is_whole())
        reply.add(DATA[end - 1:end], 2)
        self.assertTrue(reply.is_whole())

    def test_a_count_is_the_last_one(self):
        reply = sse.Reply()
        reply.add(DATA, 1)
        self.assertEqual(reply.count("completion_tokens"), 12)
        self.assertEqual(reply.count("cached_tokens"), 0)


if __name__ == "__main__":
    unittest.main()
