"""What a confined process can no longer do, each tried from C through ctypes, which Python's own events do not see."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

import capplan
from capplan.processes.confine import Confinement

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has Landlock and filters of calls")

ATTEMPTS = """
import ctypes, errno, os, signal, sys
from pathlib import Path
from capplan.processes.confine import confine
inside, outside, other = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
wrote = libc.open(bytes(outside / "before"), os.O_WRONLY | os.O_CREAT, 0o600) >= 0
before = {"socket": libc.socket(2, 1, 0) >= 0, "write": wrote}
print(sorted(what.name for what in confine(inside)), before)

def tried(name, *arguments):
    ctypes.set_errno(0)
    done = getattr(libc, name)(*arguments)
    return f"{name} " + ("done" if done >= 0 else errno.errorcode[ctypes.get_errno()])

writing = os.O_WRONLY | os.O_CREAT
print(tried("open", bytes(inside / "new"), writing, 0o600))
print(tried("open", b"/dev/null", os.O_WRONLY))
print(tried("open", bytes(outside / "kept"), os.O_RDONLY))
print(tried("kill", os.getpid(), 0))
print("--")
print(tried("open", bytes(outside / "new"), writing, 0o600))
print(tried("open", bytes(outside / "kept"), os.O_WRONLY | os.O_TRUNC))
print(tried("unlink", bytes(outside / "kept")))
print(tried("rename", bytes(inside / "new"), bytes(outside / "moved")))
print(tried("mkdir", bytes(outside / "folder"), 0o700))
print(tried("symlink", b"/etc/passwd", bytes(outside / "link")))
print(tried("socket", 2, 1, 0))
print(tried("socket", 1, 1, 0))
print(tried("kill", other, 0))
print(tried("syscall", 425, 8, 0))
print(tried("ptrace", 16, other, 0, 0))
print(tried("execv", b"/bin/true", (ctypes.c_char_p * 2)(b"true", None)))
if os.fork() == 0:
    os._exit(0 if libc.socket(2, 1, 0) < 0 else 1)
print("in a child", os.waitstatus_to_exitcode(os.wait()[1]))
"""


def has(what: Confinement) -> bool:
    """Ask in a process of its own, because what is taken stays taken."""
    asked = (
        "import sys; from pathlib import Path; from capplan.processes.confine import confine\n"
        "print(*[taken.name for taken in confine(Path(sys.argv[1]))])"
    )
    done = subprocess.run([sys.executable, "-c", asked, "/tmp"], capture_output=True, text=True, check=True, cwd=ROOT)
    return what.name in done.stdout


ROOT = Path(capplan.__file__).parents[1]


def test_a_confined_process_writes_below_its_folder_alone_and_reaches_nothing(tmp_path: Path) -> None:
    if not (has(Confinement.WRITES) and has(Confinement.CALLS)):
        pytest.skip("this kernel has no Landlock or no filter of calls")
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "kept").write_text("kept")
    words = [sys.executable, "-c", ATTEMPTS, str(inside), str(outside), str(os.getpid())]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == "['CALLS', 'WRITES'] {'socket': True, 'write': True}"
    allowed, refused = lines[: lines.index("--")], lines[lines.index("--") + 1 :]
    assert [line.split()[1] for line in allowed] == ["done"] * 4
    assert refused.pop() == "in a child 0"
    assert len(refused) == 12
    for line in refused:
        assert line.split()[1] == "EACCES", line
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"kept": "kept", "before": ""}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the header of this machine's calls is another")
def test_the_numbers_of_calls_are_those_of_the_system() -> None:
    from capplan.processes.confine import _REFUSED, _TO_ITSELF_ALONE

    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("the headers of Linux are not installed")
    stated = dict(line.split()[1:3] for line in header.read_text().splitlines() if line.startswith("#define __NR_"))
    for name, number in {**_REFUSED["x86_64"], **_TO_ITSELF_ALONE["x86_64"]}.items():
        assert stated[f"__NR_{name}"] == str(number)
