"""Take from a process what its work does not need: writing outside a folder, the network, programs, other processes.

Linux's Landlock refuses to write, and a filter of system calls (seccomp) refuses the rest. A process cannot take either
back, nor can what it starts. Where a system has neither, nothing is taken, and the answer says so.

Numbers and structures: linux/landlock.h, linux/seccomp.h, linux/filter.h, asm/unistd_64.h and asm-generic/unistd.h.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Final


class Confinement(Enum):
    """What a process can no longer do."""

    WRITES = "write a file outside its folder"
    CALLS = "reach the network, start a program or touch another process"


_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _VERSION, _PATH_BENEATH = 444, 445, 446, 1, 1
_WRITE_FILE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
"""LANDLOCK_ACCESS_FS_REMOVE_DIR to MAKE_SYM."""
_TRUNCATE, _TRUNCATES_FROM = 1 << 14, 3
"""LANDLOCK_ACCESS_FS_TRUNCATE and the version that knows it."""

_COMMON: Final = {"pidfd_send_signal": 424, "io_uring_setup": 425, "pidfd_open": 434, "pidfd_getfd": 438}
_REFUSED: Final[Mapping[str, Mapping[str, int]]] = {
    "x86_64": {
        "socket": 41, "connect": 42, "bind": 49, "listen": 50, "execve": 59, "ptrace": 101, "mount": 165,
        "unshare": 272, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "bpf": 321,
        "execveat": 322, **_COMMON,
    },
    "aarch64": {
        "mount": 40, "unshare": 97, "ptrace": 117, "socket": 198, "bind": 200, "listen": 201, "connect": 203,
        "execve": 221, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "bpf": 280, "execveat": 281,
        **_COMMON,
    },
}  # fmt: skip
"""System calls that are refused, by machine. io_uring would open sockets without the calls that are named."""
_TO_ITSELF_ALONE: Final[Mapping[str, Mapping[str, int]]] = {
    "x86_64": {"kill": 62, "tkill": 200, "tgkill": 234},
    "aarch64": {"kill": 129, "tkill": 130, "tgkill": 131},
}
"""Calls that send a signal; the first argument is the process, or for `tkill` the thread."""
_AUDIT_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_FIRST_OF_X32 = 0x40000000
"""x86-64 takes the same calls by numbers from here on, too."""
_LOAD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EACCES


def confine(folder: Path) -> frozenset[Confinement]:
    """Take from this thread, and from all that it starts, what tracing does not need; return what was taken."""
    if sys.platform != "linux":
        return frozenset()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return frozenset()
    taken = {Confinement.WRITES: _refuse_writes(libc, folder), Confinement.CALLS: _refuse_calls(libc)}
    return frozenset(what for what, is_taken in taken.items() if is_taken)


def _refuse_writes(libc: ctypes.CDLL, folder: Path) -> bool:
    """Let this thread write below a folder and to the null device alone; False where the kernel has no Landlock."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION)
    if version < 1:
        return False
    handled = _WRITE_FILE | _REMOVE_AND_MAKE | (_TRUNCATE if version >= _TRUNCATES_FROM else 0)
    attributes = struct.pack("=Q", handled)
    rules = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if rules < 0:
        return False
    try:
        null = _WRITE_FILE | handled & _TRUNCATE
        return (
            _allow(libc, rules, folder, handled)
            and _allow(libc, rules, Path(os.devnull), null)
            and libc.syscall(_RESTRICT_SELF, rules, 0) == 0
        )
    finally:
        os.close(rules)


def _allow(libc: ctypes.CDLL, rules: int, place: Path, access: int) -> bool:
    opened = os.open(place, os.O_PATH | os.O_CLOEXEC)
    try:
        return bool(libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", access, opened), 0) == 0)
    finally:
        os.close(opened)


def _refuse_calls(libc: ctypes.CDLL) -> bool:
    """Filter the system calls of this thread; False where the kernel or the machine has no filter that is known."""
    machine = platform.machine()
    if machine not in _REFUSED:
        return False
    program = b"".join(_instructions(machine, os.getpid()))
    held = ctypes.create_string_buffer(program, len(program))
    stated = struct.pack("@HP", len(program) // 8, ctypes.addressof(held))  # struct sock_fprog
    return bool(libc.prctl(_SET_SECCOMP, _FILTER, stated, 0, 0) == 0)


def _instructions(machine: str, pid: int) -> list[bytes]:
    """Return the filter, eight bytes an instruction: whatever is not refused is allowed.

    Jumps count the instructions to skip where the comparison holds, and where it does not.
    """

    def step(code: int, value: int, holds: int = 0, fails: int = 0) -> bytes:
        return struct.pack("=HBBI", code, holds, fails, value)

    refuse = step(_RETURN, _REFUSE)
    program = [
        step(_LOAD, _ARCHITECTURE_AT), step(_JUMP_IF_EQUAL, _AUDIT_ARCHITECTURE[machine], 1, 0), refuse,
        step(_LOAD, _NUMBER_AT), step(_JUMP_IF_AT_LEAST, _FIRST_OF_X32, 0, 1), refuse,
    ]  # fmt: skip
    for number in _REFUSED[machine].values():
        program += [step(_JUMP_IF_EQUAL, number, 0, 1), refuse]
    for number in _TO_ITSELF_ALONE[machine].values():
        program += [
            step(_JUMP_IF_EQUAL, number, 0, 4),
            step(_LOAD, _FIRST_ARGUMENT_AT), step(_JUMP_IF_EQUAL, pid, 1, 0), refuse, step(_RETURN, _ALLOW),
        ]  # fmt: skip
    return [*program, step(_RETURN, _ALLOW)]
