"""Shows that each rule of check_tree.py bites, and that good code passes."""

import unittest

import check_tree


def findings(path, text):
    return [finding for _, finding in check_tree.check_file(path, text)]


class CheckTreeTest(unittest.TestCase):

    def assert_bad(self, path, line, part):
        found = findings(path, f"// Purpose.\n{line}\n")
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def assert_good(self, path, line):
        self.assertEqual(findings(path, f"// Purpose.\n{line}\n"), [])

    def test_planner_includes_only_abseil_and_base(self):
        self.assert_good("planner/a.cc", '#include "absl/status/status.h"')
        self.assert_good("planner/a.cc", '#include "base/dtype.h"')
        self.assert_good("planner/a.cc", "#include <vector>")
        self.assert_bad("planner/a.cc", '#include "worker/a.h"', "may not")
        self.assert_bad("planner/a.cc", '#include "kernels/a.h"', "may not")

    def test_planner_has_no_clock_thread_or_file(self):
        self.assert_good("planner/a.cc", '#include "absl/time/time.h"')
        self.assert_bad("planner/a.cc", '#include "absl/time/clock.h"', "clock")
        self.assert_bad("planner/a.cc", "#include <thread>", "thread")
        self.assert_bad("planner/a.cc", "#include <fstream>", "input")

    def test_threads_wait_by_a_folder_that_planner_does_not_know(self):
        header = '#include "base/sync/steady_mutex.h"'
        self.assert_good("base/sync/a.h", "#include <mutex>")
        self.assert_bad("base/a.h", "#include <mutex>", "thread")
        self.assert_bad("base/sync/a.h", '#include "absl/time/clock.h"', "clock")
        self.assert_good("worker/engine/a.cc", header)
        self.assert_bad("planner/lease/a.cc", header, "only for")

    def test_no_timed_wait_follows_the_time_of_day(self):
        self.assert_good("services/a.cc", "mu_.AwaitFor(condition, time);")
        for wait in ("mu_.AwaitWithTimeout(condition, time);",
                     "changed_.WaitWithDeadline(&mu_, end);",
                     "done_.WaitForNotificationWithTimeout(time);"):
            self.assert_bad("services/a.cc", wait, "time of day")

    def test_what_grpc_calls_back_throws_nothing(self):
        for reaction in ("void OnWriteDone(bool ok) noexcept override {",
                         "void Call::OnReadDone(bool ok) noexcept {",
                         "void OnCancel() noexcept final;",
                         "call.OnDone();",
                         "grpc::ServerUnaryReactor* Get(Context* context,\n"
                         "    const Request* request) noexcept override {"):
            self.assert_good("services/a.cc", reaction)
        for reaction in ("void OnWriteDone(bool ok) override {",
                         "void Call::OnReadDone(bool ok) {",
                         "void OnCancel() final;",
                         "void OnDone(const grpc::Status& status) override {",
                         "ServerWriteReactor<v1::Reply>* Get(\n"
                         "    Context* context) override {"):
            self.assert_bad("services/a.cc", reaction, "noexcept")

    def test_a_comment_beside_code_can_be_read_alone(self):
        # Put together here, so that this file holds no such comment itself.
        for path, line in (("worker/a.h", "int64_t cols;  // {}"),
                           ("worker/a.cc", "Take(/* {} */ 1);"),
                           ("services/a.js", "let a = 1;  // {}"),
                           ("bench/a.py", "COLS = 1  # {}"),
                           ("scripts/a.sh", "cols=1 # {}")):
            self.assert_bad(path, line.format("of a row"), "subject")
            self.assert_good(path, line.format("columns of a row"))
            self.assert_good(path, line.format("offsets"))
        for path, line in (("worker/a.h", "int64_t n;  // columns\n  // {}"),
                           ("worker/a.h", "// How many columns\n// {}"),
                           ("worker/a.cc", 'Parse("a # {}");'),
                           ("bench/a.py", "# How many columns\n# {}")):
            self.assert_good(path, line.format("of a row"))

    def test_kernels_know_no_model(self):
        self.assert_good("kernels/cpu/a.cc", '#include "hwy/highway.h"')
        self.assert_bad("kernels/cpu/a.cc", '#include "worker/a.h"', "may not")
        self.assert_bad("kernels/cpu/a.cc", '#include "planner/a.h"', "may not")

    def test_cuda_headers_stay_in_their_folder(self):
        self.assert_good("kernels/cuda/a.cu", "#include <cuda_runtime.h>")
        self.assert_bad("services/a.cc", "#include <cuda_runtime.h>", "only for")

    def test_worker_knows_no_grpc_and_no_proto(self):
        self.assert_good("worker/a.cc", '#include "planner/layout/memory_plan.h"')
        found = findings("worker/a.cc", '// P.\n#include "grpcpp/grpcpp.h"\n')
        self.assertTrue(found)
        found = findings("worker/a.cc", '// P.\n#include "plimsoll/v1/a.pb.h"\n')
        self.assertTrue(found)

    def test_folders_of_a_room_include_each_other_one_way(self):
        self.assert_good("planner/model/a.cc", '#include "planner/gguf/b.h"')
        self.assert_bad("planner/gguf/a.cc", '#include "planner/model/b.h"',
                        "may not")
        self.assert_bad("worker/cache/a.cc", '#include "worker/engine/b.h"',
                        "may not")
        self.assert_good("kernels/cpu/a.cc",
                         '#include "kernels/cpu/attention/b.h"')
        self.assert_good("kernels/cpu/attention/a.cc",
                         '#include "kernels/cpu/b.h"')

    def test_the_folders_of_a_room_make_no_circle(self):
        done = set()
        left = dict(check_tree.FOLDERS)
        while left:
            free = [f for f, uses in left.items() if set(uses) <= done]
            self.assertTrue(free, f"a circle among {sorted(left)}")
            done.update(free)
            for folder in free:
                del left[folder]

    def test_no_folders_include_each_other(self):
        def found(*files):
            tree = [(path, f'// P.\n#include "{header}"\n')
                    for path, header in files]
            return [finding for _, finding in check_tree.check_circles(tree)]
        down = ("kernels/cpu/a.cc", "kernels/cpu/attention/a.h")
        up = ("kernels/cpu/attention/b-inl.h", "kernels/cpu/b-inl.h")
        self.assertEqual(found(down), [])
        self.assertEqual(found(up), [])
        self.assertEqual(len(found(down, up)), 1)
        self.assertIn("kernels/cpu -> kernels/cpu/attention -> kernels/cpu",
                      found(down, up)[0])
        beside = (("worker/graph/a/a.cc", "worker/graph/b/b.h"),
                  ("worker/graph/b/b.h", "worker/graph/c/c.h"))
        self.assertEqual(found(*beside), [])
        circle = found(*beside, ("worker/graph/c/c.h", "worker/graph/a/a.h"))
        self.assertEqual(len(circle), 1)
        self.assertIn("worker/graph/b/b.h:2", circle[0])
        # A file's own folder, tests and other libraries are no arrows.
        self.assertEqual(found(("base/a.cc", "base/a.h"), ("base/a.cc", "tests/a.h"),
                               ("tests/a.h", "base/a.h"), ("base/a.cc", "absl/a.h")),
                         [])

    def test_a_folder_has_a_bounded_number_of_files_and_a_name(self):
        most = [f"planner/gguf/f{i}.cc" for i in range(check_tree.MAX_FILES)]
        self.assertEqual(list(check_tree.check_folders(most)), [])
        more = [*most, "planner/gguf/more.cc"]
        self.assertEqual(len(list(check_tree.check_folders(more))), 1)
        self.assertEqual(len(list(check_tree.check_folders(["worker/x/a.cc"]))),
                         1)

    def test_the_tour_has_a_line_for_every_folder(self):
        lines = "".join(f"| `{f}/` | ... |\n" for f in check_tree.FOLDERS)
        lines += "| `worker/graph/` | It has `recurrent/`. |\n"

        def left_out(text):
            return list(check_tree.check_tour(text, ["worker/graph/recurrent/a.h"]))
        self.assertEqual(left_out(lines), [])
        for name in ("planner/gguf/", "recurrent/"):
            self.assertEqual(len(left_out(lines.replace(name, "gone/"))), 1)

    def test_every_product_file_has_a_test_or_a_true_line(self):
        def found(paths, table, headers=()):
            return [finding for _, finding in
                    check_tree.check_tests(paths, headers, table)]
        tree = ["base/a.cc", "kernels/b.cu", "tests/base/a_test.cc",
                "tests/kernels/ops_test.cc"]
        table = "# Why.\n\ntests/kernels/ops_test.cc\n  kernels/b.cu\n"
        self.assertEqual(found(tree, table), [])
        folder = table.replace("b.cu", "")
        self.assertEqual(found(tree, folder), [])
        for stale in ("kernels/b.cu", "base/a.cc", "base/", "kernels/gone.cc"):
            self.assertEqual(len(found(tree, f"{table}  {stale}\n")), 1, stale)
        self.assertIn("neither", found(tree, "")[0])
        gone = table.replace("ops_test", "gone_test")
        self.assertIn("no test", found(tree, gone)[0])
        self.assertIn("no test", found(tree, "  kernels/b.cu\n")[0])
        reason = "none: it needs a device that no test has\n  kernels/b.cu\n"
        self.assertEqual(found(tree, reason), [])
        self.assertIn("no test", found(tree, "none: why\n  kernels/b.cu\n")[0])
        tree.append("kernels/c.h")
        self.assertEqual(found(tree, table), [])
        self.assertIn("neither", found(tree, table, ["kernels/c.h"])[0])
        self.assertEqual(found(tree, f"{table}  kernels/c.h\n", ["kernels/c.h"]), [])
        tree.append("tests/kernels/c_test.cc")
        self.assertEqual(found(tree, table, ["kernels/c.h"]), [])

    def test_every_product_source_has_a_header_of_its_name(self):
        shared = []
        for place, headers in check_tree.SHARED_HEADERS.items():
            path = f"{place}a.cc" if place.endswith("/") else place
            shared.append((path, f'#include "{headers[0]}"\n'))

        def found(*files):
            return [path for path, _ in
                    check_tree.check_headers([*shared, *files])]
        self.assertEqual(found(), [])
        self.assertEqual(found(("base/a.cc", "")), ["base/a.cc"])
        self.assertEqual(found(("base/a.cc", ""), ("base/a.h", "")), [])
        half = '#include "worker/engine/engine.h"\n'
        self.assertEqual(found(("worker/engine/more.cc", half)),
                         ["worker/engine/more.cc"])
        self.assertEqual(found(("kernels/cpu/b.cc", "")), ["kernels/cpu/b.cc"])
        self.assertEqual(found(("kernels/cuda/b.cc", "")), ["kernels/cuda/b.cc"])
        self.assertEqual(found(("services/worker_main.cc", ""),
                               ("services/cli/commands/main.cc", ""),
                               ("tests/base/a_test.cc", ""),
                               ("kernels/cuda/rope.cu", "")), [])
        self.assertEqual(found(("services/domain.cc", "")), ["services/domain.cc"])
        shared.pop()
        self.assertEqual(found(), ["services/cli/commands/"])

    def test_a_header_with_code_is_a_product_file(self):
        def found(text, *others):
            files = [("base/a.h", f"// P.\n{text}\n"), *((o, "") for o in others)]
            return list(check_tree.code_headers(files))
        function = "inline int F() {\n  return 1;\n}"
        self.assertEqual(found(function), ["base/a.h"])
        self.assertEqual(found(function, "base/a.cc"), [])
        self.assertEqual(found(function, "base/a.cu"), [])
        for code in ("template <class T>\nT F(T t) {\n  return t;\n}",
                     "class A {\n  int F() const {\n    return 1;\n  }\n};",
                     "#define A(x) \\\n  do {           \\\n  } while (0)"):
            self.assertEqual(found(code), ["base/a.h"], code)
        for other in ("struct A {\n  int i = 0;\n};", "constexpr int kA[] = {\n  1};",
                      "class A {\n  virtual ~A() = default;\n  virtual int F() = 0;\n};",
                      "struct A {\n  bool F() const { return true; }\n};",
                      "int F();", "#define A(x) (x)"):
            self.assertEqual(found(other), [], other)

    def test_nothing_but_tests_includes_tests(self):
        self.assert_bad("services/a.cc", '#include "tests/a.h"', "only for")
        self.assert_good("tests/a.cc", '#include "tests/a.h"')

    def test_threads_are_made_in_named_places(self):
        self.assert_good("worker/engine/engine_impl.cc", "std::thread t;")
        self.assert_bad("worker/sampling/sampler.cc", "std::thread t;", "thread")
        self.assert_good("worker/a.cc", "std::thread::hardware_concurrency();")

    def test_paths_of_one_machine(self):
        for folder in ("work", "root", "tmp", "farm"):
            self.assert_bad("docs/a.md", f"see /{folder}/x", "machine")
        self.assert_bad("docs/a.md", "see /ho" + "me/someone/x", "machine")
        self.assert_good("docs/a.md", "~/.cache/plimsoll and plimsoll/v1/work")

    def test_open_ends_name_an_issue(self):
        self.assert_bad("planner/a.cc", "// TO" + "DO: later", "issue")
        self.assert_good("planner/a.cc", "// TO" + "DO(#12): later")

    def test_files_have_a_purpose_and_an_end(self):
        self.assertTrue(findings("planner/a.cc", "#include <vector>\n"))
        self.assertEqual(findings("planner/a.cc", '#include "planner/a.h"\n'), [])
        lines = "// Purpose.\n" * check_tree.MAX_LINES
        self.assertEqual(findings("planner/a.cc", lines), [])
        self.assertTrue(findings("planner/a.cc", lines + "// One more.\n"))

    def test_a_long_file_has_a_reason_and_an_end_too(self):
        for path, reason in check_tree.LONG_FILES.items():
            self.assertGreater(len(reason), 20, path)
            lines = "// Purpose.\n" * check_tree.MAX_LONG_LINES
            self.assertEqual(findings(path, lines), [])
            self.assertTrue(findings(path, lines + "// One more.\n"))

    def test_a_function_has_an_end(self):
        def found(head, n, path="planner/a.cc"):
            body = "  ++i;  // }\n" * (n - 2)
            return findings(path, f"// P.\nnamespace a {{\n{head}\n{body}}}\n}}\n")

        most = check_tree.MAX_FUNCTION_LINES
        heads = ("void F(int i = 0) {", "template <class T> int A::F(T i) const {",
                 "A::A(int i) : i_(i) {", 'absl::Status F(const char* s = "{") {',
                 "bool operator==(const A& other) {")
        for head in heads:
            self.assertEqual(found(head, most), [], head)
            self.assertEqual(len(found(head, most + 1)), 1, head)
        for head in ("struct A {", "namespace b {", 'HWY_PUSH_ATTRIBUTES("x")\nnamespace b {',
                     "constexpr int kA[] = {",
                     "constexpr auto kA = std::to_array<A>({"):
            self.assertEqual(found(head, most + 1), [], head)
        self.assertEqual(found(heads[1], most + 1, "tests/a.cc"), [])
        for path in ("kernels/cuda/a.cu", "kernels/cuda/a.cuh", "bench/a.cc"):
            self.assertEqual(len(found(heads[0], most + 1, path)), 1, path)

    def test_a_function_has_a_bounded_number_of_parameters(self):
        def found(code, path="planner/a.cc"):
            return [finding for finding in findings(path, f"// P.\n{code}\n")
                    if "parameters" in finding]

        most = check_tree.MAX_PARAMETERS
        for kind in ("int", "const std::map<int, std::pair<A, B>>&"):
            fits = ", ".join(f"{kind} a{i}" for i in range(most))
            for head in ("void F({}) {{\n}}", "namespace a {{\nint F({});\n}}",
                         "struct A {{\n  A({});\n}};",
                         "A::A({}) : a_(1), b_{{}} {{\n}}",
                         "template <typename A, typename B>\nA F({}) {{\n}}",
                         "class A {{\n public:\n  int F({}) const = 0;\n}};",
                         "__attribute__((cold)) void F({}) {{\n}}"):
                self.assertEqual(found(head.format(fits)), [], head)
                for more in ("int b", "int", "const char* b = \"a, b\"", "A (&b)[2]",
                             "std::function<void(int, int)> b = nullptr"):
                    code = head.format(f"{fits}, {more}")
                    self.assertEqual(len(found(code)), 1, code)
        # A star may stand for a product where a variable may be.
        stars = ", ".join(["A* a"] * (most + 1))
        self.assertEqual(len(found(f"void F({stars}) {{\n}}")), 1)
        self.assertEqual(len(found(f"struct A {{\n  A({stars});\n}};")), 1)
        self.assertEqual(found(f"A F({stars});"), [])
        # What is in brackets of one parameter, or of its default, does not count.
        inner = ", ".join(["int"] * (most + 1))
        self.assertEqual(found(f"void F(std::function<void({inner})> f) {{}}"), [])
        self.assertEqual(found(f"void F(A a = {{{inner}}}, B b = G({inner}));"), [])
        # Calls have no parameters, wherever they are, and macros are left alone.
        values = ", ".join(["a * b"] * (most + 1))
        for call in (f"void F() {{\n  G({values});\n  A a({values});\n}}",
                     f"const A kA({values});", f"const A kA = G({values});",
                     f"const A kA(new T, sizeof a, a and b, {values});",
                     f'const A kA("a" PRIu64 "b" PRIu64, {values});',
                     f"struct A {{\n  int a = G({values});\n}};",
                     f"A::A(int i) : a_({values}), b_{{i}}, c_({values}) {{\n}}",
                     f"A::A() : a_{{1}}, f_([](int i) {{ G({values}); }}) {{\n}}",
                     f"static_assert(G({values}));", f"A_MACRO(int a, {values})",
                     f"auto f = [](int a) {{ return G({values}); }};"):
            self.assertEqual(found(call), [], call)
        wide = ", ".join(f"int a{i}" for i in range(most + 1))
        self.assertEqual(found(f"void F({wide}) {{}}", "kernels/a.cc"), [])
        self.assertEqual(found(f"void F({wide}) {{}}", "tests/a.cc"), [])
        for path, name in check_tree.DICTATED.items():
            self.assertEqual(found(f"int {name}({wide}) {{}}", path), [])
            self.assertEqual(len(found(f"int F({wide}) {{}}", path)), 1)

    def test_helpers_of_tests_have_no_default_arguments(self):
        for helper in ("void Run(int n = 4);",
                       "Sink(const Model& model,\n     int64_t limit = 3) {",
                       "const auto run = [&](DType type = DType::kF32) {",
                       "void Run(const std::vector<std::pair<int, int>>& all = {});",
                       "int Run(const std::function<void(int)>& then = [] {});"):
            self.assert_bad("tests/worker/a_test.cc", helper, "default argument")
            self.assert_good("worker/a.cc", helper)
        for code in ("struct Setup {\n  int n = 4;\n};",
                     "for (int64_t i = 0; i < n; ++i) Run(i);",
                     "if (const Row* row = Find(n); row != nullptr) {",
                     "while ((at = text.find(part, at)) != npos) {",
                     "std::map<int, std::vector<int>> all = {};",
                     'Run({.n = 4}, /*bool is_last = */true, "f(int n = 4)");',
                     "EXPECT_TRUE(a < b || c == d);"):
            self.assert_good("tests/worker/a_test.cc", code)

    def test_a_method_in_a_class_is_a_function(self):
        text = f"// P.\nclass A {{\n  void F() {{\n{'    ++i;' + chr(10)}  }}\n}};\n"
        self.assertEqual(list(check_tree.functions(text)), [(3, 3)])


if __name__ == "__main__":
    unittest.main()
