"""Runs a command that may run programs of 64-bit ARM, by QEMU.

Usage: emulated.py COMMAND [ARGUMENT...]   as root

Where Linux gives programs of arm64 to QEMU already, the command is just run. Elsewhere it
is run in a user namespace of its own with that setting (Linux 6.7 or newer), so that
nothing changes for other processes. It is root there, but can make no device.
"""

import ctypes
import os
import pathlib
import sys

QEMU = "/usr/bin/qemu-aarch64-static"
SETTINGS = pathlib.Path("/proc/sys/fs/binfmt_misc")
# Linux knows a program by the first bytes of its ELF header: 64 bits, little endian, a
# program or a shared object, machine 183. F opens QEMU now, as another root lacks it;
# P lets a program have its own name.
MAGIC = r"\x7fELF\x02\x01\x01\x00" + r"\x00" * 8 + r"\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00" + r"\xff" * 8 + r"\xfe\xff\xff\xff"
SETTING = f":qemu-aarch64:M::{MAGIC}:{MASK}:{QEMU}:PF"
# <sched.h>, <sys/mount.h>
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
LIBC = ctypes.CDLL(None, use_errno=True)
TOO_OLD = f"""error: cannot set that {QEMU} runs programs of arm64, which needs Linux 6.7 in
a namespace. Older systems do it for all processes: `apt install binfmt-support`,
then install qemu-user-static again."""


def check(result):
    """Fails as the system call did."""
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def run_in_namespace(command, is_mapped):
    """Becomes the command, once its users are mapped."""
    os.read(is_mapped, 1)
    try:
        check(LIBC.mount(b"plimsoll", str(SETTINGS).encode(), b"binfmt_misc", 0, None))
        (SETTINGS / "register").write_text(SETTING)
    except OSError as error:
        raise SystemExit(f"{TOO_OLD}\n({error})") from error
    os.execvp(command[0], command)


def main():
    command = sys.argv[1:]
    if not command:
        raise SystemExit(__doc__)
    if (SETTINGS / "qemu-aarch64").exists():
        os.execvp(command[0], command)
    is_apart, apart = os.pipe()
    is_mapped, mapped = os.pipe()
    child = os.fork()
    if child == 0:
        check(LIBC.unshare(CLONE_NEWUSER | CLONE_NEWNS))
        os.write(apart, b"x")
        run_in_namespace(command, is_mapped)
    os.read(is_apart, 1)
    for kind in ("uid", "gid"):
        pathlib.Path(f"/proc/{child}/{kind}_map").write_text("0 0 4294967295")
    os.write(mapped, b"x")
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
