"""The structs that _c.py reads from the headers, against a C compiler: sizes and the place of every field."""

import ctypes
import os
import shutil
import subprocess
import tempfile
import unittest

from stet import _c

include = os.environ.get("STET_INCLUDE") or os.path.join(os.path.dirname(__file__), "..", "..", "include")
cc = os.environ.get("CC") or shutil.which("cc")


@unittest.skipUnless(cc and os.path.exists(os.path.join(include, "stet")), "needs a C compiler and the headers")
class Abi(unittest.TestCase):
    def test_structs(self):
        want, code = [], ["#include <stddef.h>", "#include <stdio.h>", "#define STET_EXPERIMENTAL", "#include <stet/stet.h>",
                          "int main(void) {"]
        for kind in _c._headers.made.values():
            name = kind.__name__
            want.append(f"{name} {ctypes.sizeof(kind)}")
            code.append(f'printf("{name} %zu\\n", sizeof({name}));')
            for field, _type in kind._fields_:
                at = getattr(kind, field)
                want.append(f"{name}.{field} {at.offset} {at.size}")
                code.append(f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), '
                            f"sizeof((({name} *)0)->{field}));")
        with tempfile.TemporaryDirectory() as tmp:
            with open(f"{tmp}/abi.c", "w") as f:
                f.write("\n".join(code + ["return 0; }"]))
            subprocess.run([cc, "-I", include, f"{tmp}/abi.c", "-o", f"{tmp}/abi"], check=True)
            got = subprocess.run([f"{tmp}/abi"], check=True, capture_output=True, text=True).stdout
        self.assertEqual(got.splitlines(), want)


if __name__ == "__main__":
    unittest.main()
